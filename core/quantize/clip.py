"""Scale and bias of a group of weights: where to clip, and the least-squares fit after it.

Groups lie in columns here: `S` numbers that share a scale by `N` groups, so that what is done to
one number of every group runs over contiguous memory.
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from core.quantize.codes import Codes, Floats, Rounded, stored

# Shares of a group's range that are tried. Fewer bits gain from cutting more off.
_SHARES = (1.0, 0.96, 0.92, 0.88, 0.84, 0.79, 0.74, 0.68, 0.6)
_REFINEMENTS = 3
_CHUNK = 2048  # groups at a time: what is computed of them stays in a core's cache
_TINY = 1e-12


def nearest(weights: Floats, scale: Floats, bias: Floats, bits: int) -> Floats:
    """Return the nearest codes of weights [.., N], as float32."""
    codes: Floats = np.rint((weights - bias) / scale)
    np.clip(codes, 0, 2**bits - 1, out=codes)
    return codes


def fit_scales(
    weights: Floats, importance: Floats, *, bits: int, dtype: mx.Dtype
) -> tuple[Floats, Floats]:
    """Return the scale and bias [N] of groups with the least weighted squared error found.

    Args:
        weights: [S, N].
        importance: [S], not negative: what an error at each place of a group costs.
        bits: width of the codes.
        dtype: stored type, to which scale and bias are rounded.
    """
    scale, bias = np.empty(weights.shape[1], np.float32), np.empty(weights.shape[1], np.float32)
    heavy = (importance + _TINY * (importance.max() + _TINY)).astype(np.float32)[:, None]
    for start in range(0, weights.shape[1], _CHUNK):
        part = slice(start, start + _CHUNK)
        scale[part], bias[part] = _fit(weights[:, part], heavy, bits, dtype)
    return scale, bias


def clipped(
    weight: Floats, importance: Floats, *, bits: int, group_size: int, dtype: mx.Dtype
) -> Rounded:
    """Return weights [O, I] rounded to the nearest, each group with its own best scale.

    Args:
        weight: the weights.
        importance: [I], not negative.
        bits: width of the codes.
        group_size: numbers that share a scale.
        dtype: stored type.
    """
    outputs, inputs = weight.shape
    columns = np.ascontiguousarray(weight.T)
    codes: Codes = np.empty((inputs, outputs), np.uint8)
    scales = np.empty((inputs // group_size, outputs), np.float32)
    biases = np.empty_like(scales)
    for group in range(len(scales)):
        part = slice(group * group_size, (group + 1) * group_size)
        scales[group], biases[group] = fit_scales(
            columns[part], importance[part], bits=bits, dtype=dtype
        )
        codes[part] = nearest(columns[part], scales[group], biases[group], bits)
    return Rounded(
        codes=np.ascontiguousarray(codes.T),
        scales=np.ascontiguousarray(scales.T),
        biases=np.ascontiguousarray(biases.T),
    )


def safe_scale(scale: Floats, dtype: mx.Dtype) -> Floats:
    """Return scales in the stored type, none of them zero."""
    rounded = stored(scale, dtype)
    least = np.full(1, 1e-7 if dtype == mx.float16 else 1e-30, np.float32)
    return np.where(np.abs(rounded) < least, stored(least, dtype), rounded)


def _fit(weights: Floats, importance: Floats, bits: int, dtype: mx.Dtype) -> tuple[Floats, Floats]:
    """Try every clipping, then improve the best by least squares."""
    top = np.float32(2**bits - 1)
    low, high = weights.min(0), weights.max(0)
    middle, half = (low + high) / 2, (high - low) / 2
    best: list[Floats] = []
    for share in _SHARES:
        scale = safe_scale(2 * half * share / top, dtype)
        bias = stored(middle - scale * top / 2, dtype)
        best = _better(best, _tried(weights, importance, scale, bias, bits))
    for _ in range(_REFINEMENTS):
        scale, bias = _least_squares(weights, importance, best, bits, dtype)
        best = _better(best, _tried(weights, importance, scale, bias, bits))
    return best[1], best[2]


def _tried(
    weights: Floats, importance: Floats, scale: Floats, bias: Floats, bits: int
) -> list[Floats]:
    """Return error, scale and bias of every group."""
    missed = nearest(weights, scale, bias, bits)
    missed *= scale
    missed += bias
    missed -= weights
    missed *= missed
    missed *= importance
    return [missed.sum(0), scale, bias]


def _better(best: list[Floats], found: list[Floats]) -> list[Floats]:
    """Return for each group the one of two with the smaller error."""
    if not best:
        return found
    gained = found[0] < best[0]
    return [np.where(gained, new, old) for new, old in zip(found, best, strict=True)]


def _least_squares(
    weights: Floats, importance: Floats, best: list[Floats], bits: int, dtype: mx.Dtype
) -> tuple[Floats, Floats]:
    """Return scale and bias that fit the weights best when the codes stay as they are."""
    codes = nearest(weights, best[1], best[2], bits)
    total = importance.sum()
    mean_code = (importance * codes).sum(0) / total
    mean_weight = (importance * weights).sum(0) / total
    spread = codes - mean_code
    variance = (importance * spread * spread).sum(0)
    covariance = (importance * spread * weights).sum(0)
    slope = np.where(variance > 0, covariance / np.maximum(variance, _TINY), best[1])
    scale = safe_scale(slope.astype(np.float32), dtype)
    return scale, stored((mean_weight - scale * mean_code).astype(np.float32), dtype)
