"""One weight matrix rounded as well as its calibration inputs allow, and never worse than plainly.

`O` outputs, `I` inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from core.quantize.clip import clipped
from core.quantize.codes import Floats, Rounded, as_floats
from core.quantize.feedback import feed_back, loss
from core.quantize.form import Form
from core.quantize.hessian import DAMPING, Moments, corrected, damped
from core.quantize.pack import plain_fit

Packed = dict[str, mx.array]
"""`weight`, `scales` and, in the affine mode, `biases`, as MLX's quantized layers hold them."""

_DAMPINGS = (DAMPING, 0.1, 1.0)  # the next where a Hessian is not positive definite with one
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
    """Return a weight [O, I] rounded with error feedback, or plainly where that loses less.

    Args:
        weight: in the model's stored type, which scales and biases get.
        found: the moments of its inputs.
        form: how it is packed.
    """
    simple = plain_fit(weight, form)
    obstacle = _obstacle(weight, form)
    if obstacle is None and not np.isfinite(found.hessian).all():
        obstacle = "its inputs are not finite"
    if obstacle is None and not np.diagonal(found.hessian).any():
        obstacle = "its inputs are all zero"
    if obstacle:
        return Outcome(packed=simple, obstacle=obstacle)
    values = as_floats(weight)
    for damping in _DAMPINGS:
        hessian = damped(found.hessian, damping)
        try:
            target = _target(values, hessian, found)
            rounded = feed_back(
                target,
                hessian,
                bits=form.bits,
                group_size=form.group_size,
                dtype=weight.dtype,
            )
        except np.linalg.LinAlgError:
            continue
        if _finite(rounded) and loss(target, rounded.values(), hessian) <= loss(
            target, as_floats(unpacked(simple, form)), hessian
        ):
            return Outcome(packed=rounded.packed(form.bits, weight.dtype), obstacle=None)
        return Outcome(packed=simple, obstacle="error feedback loses more")
    return Outcome(packed=simple, obstacle="its Hessian is not positive definite")


def _obstacle(weight: mx.array, form: Form) -> str | None:
    """Return why a weight cannot be fitted, or None."""
    if form.mode != "affine":
        return f"fits are for affine weights, not for {form.mode}"
    if weight.dtype not in _FLOATS:
        return "it is stored in another type than float16, bfloat16 and float32"
    return None


def _target(values: Floats, hessian: Floats, found: Moments) -> Floats:
    """Return what should stand for W on the inputs of the quantized model."""
    if found.drift is None or not np.isfinite(found.drift).all():
        return values
    return corrected(values, hessian, found.drift)


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
