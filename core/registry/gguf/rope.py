"""Rotary scaling: from GGUF's metadata and factor tensors to config.json's `rope_scaling`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from core.registry.gguf.metadata import architecture, has, integer, number, refusal
from core.registry.gguf.values import floats

if TYPE_CHECKING:
    from core.registry.gguf.blocks import Array
    from core.registry.gguf.container import GgufFile
    from core.registry.gguf.families import Dimensions, Family

FREQS = "rope_freqs.weight"
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
FACTOR_TENSORS = frozenset((FREQS, LONG, SHORT))
"""Tensors that become numbers in config.json."""

# Llama 3's rope scaling, of which a GGUF keeps only the resulting factors.
_LLAMA3 = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
# Numbers that change what scaling computes, and that mlx-lm has no place for.
_UNKNOWN = ("yarn_log_multiplier", "yarn_ext_factor", "yarn_attn_factor")


def rope_config(gguf: GgufFile, family: Family, size: Dimensions) -> dict[str, Any]:
    """Return the keys of config.json that say how positions are rotated.

    Raises:
        BadModelFiles: scaling of a kind that mlx-lm does not have for the family, or numbers out
            of range.
    """
    base = number(gguf, "rope.freq_base", default=10000.0)
    config: dict[str, Any] = {"rope_theta": base, "rope_scaling": None}
    kind = _kind(gguf)
    if kind == "none":
        return config
    if kind not in family.scalings:
        raise refusal(
            gguf,
            f"scales its rotary positions by {kind!r:.40}, which mlx-lm does not do for"
            f" {family.model_type}",
        )
    if kind == "longrope":
        return {**config, **_longrope(gguf, size)}
    rule = {"linear": _linear, "yarn": _yarn}.get(kind)
    config["rope_scaling"] = rule(gguf) if rule else _llama3(gguf, size, base)
    return config


def _kind(gguf: GgufFile) -> str:
    if FREQS in gguf.tensors:
        return "llama3"
    if LONG in gguf.tensors or SHORT in gguf.tensors:
        return "longrope"
    # Old files have the factor of linear scaling, and no kind.
    old = "linear" if has(gguf, "rope.scale_linear") else "none"
    return str(gguf.metadata.get(f"{architecture(gguf)}.rope.scaling.type", old))


def _linear(gguf: GgufFile) -> dict[str, Any]:
    old = has(gguf, "rope.scale_linear") and not has(gguf, "rope.scaling.factor")
    return {
        "type": "linear",
        "factor": number(gguf, "rope.scale_linear" if old else "rope.scaling.factor"),
    }


def _yarn(gguf: GgufFile) -> dict[str, Any]:
    for key in _UNKNOWN:
        if has(gguf, f"rope.scaling.{key}"):
            raise refusal(gguf, f"has 'rope.scaling.{key}', which mlx-lm has no place for")
    if number(gguf, "rope.scaling.attn_factor", default=1.0) != 1.0:
        raise refusal(gguf, "has a 'rope.scaling.attn_factor' that is not yarn's own")
    scaling: dict[str, Any] = {
        "rope_type": "yarn",
        "factor": number(gguf, "rope.scaling.factor"),
        "original_max_position_embeddings": integer(gguf, "rope.scaling.original_context_length"),
    }
    for key in ("beta_fast", "beta_slow"):
        if has(gguf, f"rope.scaling.yarn_{key}"):
            scaling[key] = number(gguf, f"rope.scaling.yarn_{key}")
    return scaling


def _longrope(gguf: GgufFile, size: Dimensions) -> dict[str, Any]:
    original = integer(gguf, "rope.scaling.original_context_length")
    ratio = size.context / original
    grown = ratio > 1 and original > 1
    wanted = math.sqrt(1 + math.log(ratio) / math.log(original)) if grown else 1.0
    if not math.isclose(
        number(gguf, "rope.scaling.attn_factor", default=1.0), wanted, rel_tol=1e-3
    ):
        raise refusal(
            gguf, "has a 'rope.scaling.attn_factor' that does not follow from its contexts"
        )
    scaling = {
        "type": "longrope",
        "long_factor": _factors(gguf, LONG, size.rotary).tolist(),
        "short_factor": _factors(gguf, SHORT, size.rotary).tolist(),
    }
    return {"rope_scaling": scaling, "original_max_position_embeddings": original}


def _llama3(gguf: GgufFile, size: Dimensions, base: float) -> dict[str, Any]:
    """Find the factor that gives the file's frequencies by Llama 3's rule, or refuse."""
    found = _factors(gguf, FREQS, size.rotary)
    factor = float(found.max())
    if factor >= 1 and np.allclose(found, _llama3_factors(size.head, base, factor), rtol=1e-3):
        return {"rope_type": "llama3", "factor": factor, **_LLAMA3}
    raise refusal(gguf, f"has {FREQS!r} that do not follow Llama 3's rule")


def _llama3_factors(head: int, base: float, factor: float) -> Array:
    waves = 2 * np.pi * base ** (np.arange(0, head, 2) / head)
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    context = _LLAMA3["original_max_position_embeddings"]
    smooth = np.clip((context / waves - low) / (high - low), 0, 1)
    factors: Array = 1 / ((1 - smooth) / factor + smooth)
    return factors


def _factors(gguf: GgufFile, name: str, rotary: int) -> Array:
    """Return a tensor of one factor for each rotated pair, as float64."""
    entry = gguf.tensors.get(name)
    if entry is None:
        raise refusal(gguf, f"has no tensor {name!r}")
    if entry.shape != (rotary // 2,):
        raise refusal(gguf, f"has tensor {name!r} as {entry.shape}, not {(rotary // 2,)}")
    values: Array = floats(entry, gguf.read(entry))[0].astype(np.float64)
    if not bool((values > 0).all()):
        raise refusal(gguf, f"has numbers in {name!r} that are not positive")
    return values
