"""Attention and SwiGLU on a CPU on which MLX's exponentials are slow.

MLX for x86 computes `exp` one float at a time with calls into the C library, in 12 ns, and
`power` with the C library's own `powf`, in 4 ns. Half of a long prefill is exponentials, so there
e^x is computed as 2^(x · log2 e). Both are exact to the last bits of float32: logits of about 25
differ by 0.00003.

mlx-lm's models call both functions by names that their modules import, and these are replaced,
once, for as long as the process lives.

Letters: B rows, H heads of queries, G of keys, T tokens, S those that they see, D head size.
"""

from __future__ import annotations

import math
import platform
import sys
from collections.abc import Callable
from typing import Any

import mlx.core as mx

_ATTENTION, _SWIGLU = "scaled_dot_product_attention", "swiglu"
_LOG2_E = math.log2(math.e)
_LEAST = -126.0  # 2 to it is the smallest normal float32; what lies below is slow to compute
_HIDDEN = -1e30
_SLOW = ("x86_64", "AMD64")


def hasten(model: Any) -> bool:
    """Have a model's modules compute exponentials in the faster way, where that is one.

    Which way is taken depends on the machine alone, so that a seed gives the same answer again.

    Args:
        model: one of mlx-lm's.

    Returns:
        Whether that is so now.
    """
    if mx.default_device().type != mx.cpu or platform.machine() not in _SLOW:
        return False
    for name in {type(module).__module__ for module in model.modules()}:
        home = sys.modules.get(name)
        for called, change in ((_ATTENTION, attention_like), (_SWIGLU, _swiglu_like)):
            known = getattr(home, called, None)
            if known is not None and not hasattr(known, "hastened"):
                faster = change(known)
                faster.hastened = True  # type: ignore[attr-defined]
                setattr(home, called, faster)
    return True


def attention_like(known: Callable[..., mx.array]) -> Callable[..., mx.array]:
    """Return mlx-lm's `scaled_dot_product_attention`, faster for float32 and masks of booleans."""

    def attention(
        queries: mx.array,
        keys: Any,
        values: Any,
        cache: Any,
        scale: float,
        mask: mx.array | str | None = None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        if sinks is not None or hasattr(cache, "bits") or not _is_plain(queries, keys, mask):
            return known(queries, keys, values, cache, scale, mask, sinks)
        return _attention(queries, keys, values, scale, mask)

    return attention


def _is_plain(queries: mx.array, keys: mx.array, mask: mx.array | str | None) -> bool:
    if queries.dtype != mx.float32 or keys.dtype != mx.float32:
        return False
    return mask is None or mask == "causal" if isinstance(mask, str | None) else _is_of_bools(mask)


def _is_of_bools(mask: mx.array) -> bool:
    return mask.dtype == mx.bool_ and mask.ndim in (2, 4)


def _attention(
    queries: mx.array, keys: mx.array, values: mx.array, scale: float, mask: mx.array | str | None
) -> mx.array:
    # [B, H, T, D], [B, G, S, D], [B, G, S, D'] -> [B, H, T, D']
    rows, heads, length, width = queries.shape
    groups, seen = keys.shape[1], keys.shape[2]
    grouped = (queries * (scale * _LOG2_E)).reshape(rows, groups, heads // groups, length, width)
    scores = grouped @ keys[:, :, None].swapaxes(-1, -2)  # [B, G, H / G, T, S], in powers of 2
    if isinstance(mask, str):
        mask = mx.arange(seen - length, seen)[:, None] >= mx.arange(seen)
    if mask is not None:
        scores = mx.where(_grouped(mask, groups), scores, _HIDDEN)
    powers = mx.power(2.0, mx.maximum(scores - scores.max(axis=-1, keepdims=True), _LEAST))
    found = (powers @ values[:, :, None]) / powers.sum(axis=-1, keepdims=True)
    return found.reshape(rows, heads, length, -1)


def _grouped(mask: mx.array, groups: int) -> mx.array:
    """Return a mask [T, S], [B, 1, T, S] or [B, H, T, S] for scores [B, G, H / G, T, S]."""
    if mask.ndim == 2:
        return mask
    if mask.shape[1] == 1:
        return mask[:, :, None]
    return mask.reshape(mask.shape[0], groups, -1, *mask.shape[2:])


def _swiglu_like(known: Callable[..., mx.array]) -> Callable[..., mx.array]:
    def swiglu(gate: mx.array, x: mx.array) -> mx.array:
        return _swiglu(gate, x) if gate.dtype == mx.float32 else known(gate, x)

    return swiglu


def _swiglu_of(gate: mx.array, x: mx.array) -> mx.array:
    # 2 to 127 at most: the infinity beyond would give 0 as well, but slower.
    return gate * x / (1.0 + mx.power(2.0, mx.minimum(gate * -_LOG2_E, -_LEAST)))


_swiglu = mx.compile(_swiglu_of, shapeless=True)
