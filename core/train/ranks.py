"""Which rank each layer gets. Pure Python.

`by_bits`: rank · bits / 4, at least 2: a quantizer that weighs layers leaves more bits to those
that matter more. `by_kl`: rank · KL / median KL, from half the rank to twice, where the KL is what
the layer's quantization costs the model. Both are mlx-optiq's (`optiq/lora/sensitivity_rank.py`),
as is the file that KLs are read from.
"""

from __future__ import annotations

import math
from statistics import median_high
from typing import TYPE_CHECKING, Any

from core.errors import UsageProblem
from core.registry.files import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

LEAST = 2
"""No scaled rank is smaller."""
KL_FILE = "optiq_metadata.json"
"""Where a quantizer leaves each layer's KL divergence, in nats, beside the model."""

_FEWEST, _MOST = 0.5, 2.0  # times `rank` that a layer gets by its KL
# What models that see put before the names of the language model's layers.
_WRAP = "language_model."


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
        UsageProblem: `by_kl`, and no layer's KL is known.
    """
    if scaling == "by_bits":
        return {path: max(LEAST, math.ceil(rank * width / 4)) for path, width in bits.items()}
    if scaling == "by_kl":
        return _by_kl(rank, list(bits), kl)
    return dict.fromkeys(bits, rank)


def without_kl(paths: Iterable[str], kl: Mapping[str, float]) -> list[str]:
    """Return the layers whose KL is not known: with `by_kl` they get the rank as configured."""
    return [path for path in paths if _kl_at(path, kl) is None]


def read_kl(folder: Path) -> dict[str, float]:
    """Return the KL divergences that stand beside a model, by the layers' paths.

    The file is an object with `per_layer`, perhaps within `optimization`: paths of layers to
    objects that have, among others, `kl`.

    Raises:
        UsageProblem: there is no such file, or it tells none.
    """
    try:
        content = read_json(folder / KL_FILE)
    except OSError:
        content = None
    found = _kls_of(content or {})
    if not found:
        raise UsageProblem(
            f"rank_scaling by_kl needs {KL_FILE} beside the model, with the KL of its layers.",
            hint="Use by_bits or constant.",
        )
    return found


def _by_kl(rank: int, paths: Sequence[str], kl: Mapping[str, float]) -> dict[str, int]:
    known = {path: value for path in paths if (value := _kl_at(path, kl)) is not None}
    if not known:
        raise UsageProblem(
            f"{KL_FILE} tells the KL of no layer that is trained.",
            hint="Use by_bits or constant, or other target_modules.",
        )
    middle = median_high(kl.values())

    def share(path: str) -> float:
        if path not in known or not middle:
            return 1.0
        return min(_MOST, max(_FEWEST, known[path] / middle))

    return {path: max(LEAST, math.ceil(rank * share(path))) for path in paths}


def _kl_at(path: str, kl: Mapping[str, float]) -> float | None:
    """Return a layer's KL, whichever of the two has the wrapper's name before it."""
    bare = path.removeprefix(_WRAP)
    return next((kl[name] for name in (path, bare, _WRAP + bare) if name in kl), None)


def _kls_of(content: Mapping[str, Any]) -> dict[str, float]:
    layers = content.get("per_layer")
    if layers is None and isinstance(content.get("optimization"), dict):
        layers = content["optimization"].get("per_layer")
    if not isinstance(layers, dict):
        return {}
    told: dict[str, Any] = {
        path: each.get("kl") for path, each in layers.items() if isinstance(each, dict)
    }
    return {path: float(value) for path, value in told.items() if _is_kl(value)}


def _is_kl(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0
