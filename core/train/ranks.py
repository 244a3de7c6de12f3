"""Which rank each layer gets. Pure Python.

`by_bits`: rank · bits / 4, at least 2: what is stored more coarsely has lost less that an adapter
could learn on top of it. `by_kl`: the rank follows the layer's share of the divergence that its
quantization caused; the mean layer gets `rank`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from core.errors import UsageProblem
from core.registry.files import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LEAST = 2
"""No scaled rank is smaller."""
KL_FILE = "optiq_metadata.json"
"""Where a quantizer leaves each layer's KL divergence, in nats, beside the model."""

_MOST = 4  # times `rank` that a layer gets at most by its KL


def scaled_ranks(
    scaling: str, rank: int, *, bits: Mapping[str, float], kl: Mapping[str, float]
) -> dict[str, int]:
    """Return each layer's rank.

    Args:
        scaling: `constant`, `by_bits` or `by_kl`.
        rank: the configured one.
        bits: layers' paths to the bits of their weights; its keys are the layers that count.
        kl: layers' paths to the KL divergence of their quantization in nats; for `by_kl` alone.

    Raises:
        UsageProblem: `by_kl`, and a layer's KL is not known.
    """
    if scaling == "by_bits":
        return {path: max(LEAST, round(rank * width / 4)) for path, width in bits.items()}
    if scaling == "by_kl":
        return _by_kl(rank, list(bits), kl)
    return dict.fromkeys(bits, rank)


def _by_kl(rank: int, paths: Sequence[str], kl: Mapping[str, float]) -> dict[str, int]:
    missing = [path for path in paths if path not in kl]
    if missing:
        raise UsageProblem(
            f"rank_scaling by_kl needs the KL of {missing[0]}, which {KL_FILE} does not tell.",
            hint="Use by_bits or constant.",
        )
    mean = sum(kl[path] for path in paths) / len(paths)
    if not mean:
        return dict.fromkeys(paths, rank)
    wanted = {path: round(rank * kl[path] / mean) for path in paths}
    return {path: min(_MOST * rank, max(LEAST, value)) for path, value in wanted.items()}


def read_kl(folder: Path) -> dict[str, float]:
    """Return the KL divergences that stand beside a model, by the layers' paths.

    The file is an object that holds, perhaps under `layers`, `per_layer` or `sensitivity`, paths
    with a number or with an object that has it as `kl`.

    Raises:
        UsageProblem: there is no such file, or it holds none.
    """
    try:
        content = read_json(folder / KL_FILE)
    except OSError:
        content = None
    found = _kl_of(content or {})
    if not found:
        raise UsageProblem(
            f"rank_scaling by_kl needs {KL_FILE} beside the model, with the KL of each layer.",
            hint="Use by_bits or constant.",
        )
    return found


def _kl_of(content: Mapping[str, Any]) -> dict[str, float]:
    for key in ("layers", "per_layer", "sensitivity"):
        if isinstance(content.get(key), dict):
            content = content[key]
            break
    values: dict[str, Any] = {
        path: value.get("kl") if isinstance(value, dict) else value
        for path, value in content.items()
    }
    return {path: float(value) for path, value in values.items() if _is_kl(value)}


def _is_kl(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0
