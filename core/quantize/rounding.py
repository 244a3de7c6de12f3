"""One weight matrix rounded as well as its calibration inputs allow, and never worse than plainly.

`O` outputs, `I` inputs.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from core.quantize.clip import clipped
from core.quantize.codes import Floats, Rounded, as_floats
from core.quantize.feedback import feed_back
from core.quantize.form import Form
from core.quantize.hessian import DAMPING, Metric, Moments, correction, metric_of
from core.quantize.pack import plain_fit

Packed = dict[str, mx.array]
"""`weight`, `scales` and, in the affine mode, `biases`, as MLX's quantized layers hold them."""

_DAMPINGS = (DAMPING, 0.1, 1.0)  # the next where a Hessian is not positive definite with one
_CHUNK = 2**24  # numbers that are rounded together; about eight arrays of that size are held
_FLOATS = (mx.float16, mx.bfloat16, mx.float32)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A rounded matrix."""

    packed: Packed
    """Its arrays."""
    obstacle: str | None
    """Why it was rounded plainly, as a clause; None: it was not."""


def unpacked(packed: Packed, form: Form) -> mx.array:
    """Return the weights that packed arrays stand for, in float32, not rounded to 16 bits."""
    scales, biases = packed["scales"], packed.get("biases")
    if biases is not None:
        scales, biases = scales.astype(mx.float32), biases.astype(mx.float32)
    found: mx.array = mx.dequantize(
        packed["weight"],
        scales,
        biases,
        group_size=form.group_size,
        bits=form.bits,
        mode=form.mode,
    )
    return found.astype(mx.float32)


def round_clipped(weight: mx.array, form: Form) -> Outcome:
    """Return a weight [.., O, I] rounded to the nearest, each group with its own best scale."""
    simple = plain_fit(weight, form)
    if obstacle := _obstacle(weight, form):
        return Outcome(packed=simple, obstacle=obstacle)
    values = as_floats(weight)
    found = clipped(
        values.reshape(-1, values.shape[-1]),
        np.ones(values.shape[-1], np.float32),
        bits=form.bits,
        group_size=form.group_size,
        dtype=weight.dtype,
    )
    shaped = _shaped(found, weight.shape[:-1])
    if not _finite(shaped) or _missed(values, shaped.values()) > _missed(
        values, as_floats(unpacked(simple, form))
    ):
        return Outcome(packed=simple, obstacle="a fitted scale is out of the stored type's range")
    return Outcome(packed=shaped.packed(form.bits, weight.dtype), obstacle=None)


def round_fed_back(weight: mx.array, found: Moments, form: Form) -> Outcome:
    """Return a weight [O, I] rounded with error feedback; plainly each output that loses less so.

    Args:
        weight: in the model's stored type, which scales and biases get.
        found: the moments of its inputs.
        form: how it is packed.
    """
    obstacle = _obstacle(weight, form) or _useless(found)
    metric = None if obstacle else _metric(found)
    if metric is None:
        obstacle = obstacle or "its Hessian is not positive definite"
        return Outcome(packed=plain_fit(weight, form), obstacle=obstacle)
    turn = None
    if found.drift is not None and np.isfinite(found.drift).all():
        turn = correction(metric, found.drift)
    rows = max(1, _CHUNK // weight.shape[-1])
    parts = [
        _round_rows(weight[start : start + rows], metric, turn, form)
        for start in range(0, weight.shape[0], rows)
    ]
    packed = {name: mx.concatenate([each[name] for each in parts]) for name in parts[0]}
    return Outcome(packed=packed, obstacle=None)


def _round_rows(weight: mx.array, metric: Metric, turn: Floats | None, form: Form) -> Packed:
    """Return some outputs' weights [O, I], each rounded in the way that loses less."""
    values = as_floats(weight)
    target = values if turn is None else values + values @ turn
    rounded = feed_back(
        target, metric, bits=form.bits, group_size=form.group_size, dtype=weight.dtype
    )
    ours, simple = rounded.packed(form.bits, weight.dtype), plain_fit(weight, form)
    losses = metric.losses(target, rounded.values())  # what is not finite is not less either
    less = losses <= metric.losses(target, as_floats(unpacked(simple, form)))
    chosen = mx.array(less)[:, None]
    return {name: mx.where(chosen, ours[name], simple[name]) for name in ours}


def _metric(found: Moments) -> Metric | None:
    """Return what errors cost, with as little damping as it takes; None: no damping is enough."""
    for damping in _DAMPINGS:
        with suppress(np.linalg.LinAlgError):
            return metric_of(found.hessian, damping)
    return None


def _useless(found: Moments) -> str | None:
    """Return why nothing can be fitted to inputs, as a clause, or None."""
    if not np.isfinite(found.hessian).all():
        return "its inputs are not finite"
    return None if np.diagonal(found.hessian).any() else "its inputs are all zero"


def _obstacle(weight: mx.array, form: Form) -> str | None:
    """Return why a weight cannot be fitted, or None."""
    if form.mode != "affine":
        return f"fits are for affine weights, not for {form.mode}"
    if weight.dtype not in _FLOATS:
        return "it is stored in another type than float16, bfloat16 and float32"
    return None


def _finite(rounded: Rounded) -> bool:
    return bool(np.isfinite(rounded.scales).all() and np.isfinite(rounded.biases).all())


def _missed(wanted: Floats, found: Floats) -> float:
    return float(np.square(wanted - found).sum())


def _shaped(rounded: Rounded, outer: tuple[int, ...]) -> Rounded:
    """Return a matrix's codes with the outer dimensions of a tensor [.., O, I]."""
    return Rounded(
        codes=rounded.codes.reshape(*outer, -1),
        scales=rounded.scales.reshape(*outer, -1),
        biases=rounded.biases.reshape(*outer, -1),
    )
