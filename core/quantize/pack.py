"""Weights into packed numbers by plain rounding, and back; and arrays as bytes.

`O` rows, `I` numbers of a row, `E` experts or heads; weights are [O, I] or [E, O, I].
"""

from __future__ import annotations

import time
from typing import Any

import mlx.core as mx
import numpy as np

from core.quantize.form import Form

_TYPES = {
    mx.float32: "F32", mx.float16: "F16", mx.bfloat16: "BF16", mx.uint32: "U32", mx.uint8: "U8",
    mx.int32: "I32", mx.int64: "I64", mx.int16: "I16", mx.int8: "I8", mx.uint16: "U16",
    mx.uint64: "U64", mx.bool_: "BOOL",
}  # fmt: skip
# The bits of the exponent: all set in infinities and what is not a number.
_EXPONENTS: dict[Any, tuple[Any, int]] = {
    mx.float32: (np.uint32, 0x7F800000),
    mx.float16: (np.uint16, 0x7C00),
    mx.bfloat16: (np.uint16, 0x7F80),
}
_CHUNK = 2**20  # numbers looked at together, so that they stay in the processor's cache


def plain_fit(weight: mx.array, form: Form) -> dict[str, mx.array]:
    """Round a weight to the nearest numbers of a form, as mlx-lm does; lazily.

    Returns:
        `weight` (uint32, [.., I * bits / 32]), `scales` ([.., I / group]; uint8 unless affine) and,
        if affine, `biases` of the same shape, both in the weight's type.
    """
    parts = mx.quantize(weight, form.group_size, form.bits, mode=form.mode)
    return dict(zip(("weight", "scales", "biases"), parts, strict=False))


def unpack(parts: dict[str, mx.array], form: Form, dtype: Any) -> mx.array:
    """Return the weights that packed numbers stand for, lazily.

    Args:
        parts: as `plain_fit` returns them.
        form: their form.
        dtype: the type to return them in.
    """
    return mx.dequantize(
        parts["weight"],
        parts["scales"],
        parts.get("biases"),
        group_size=form.group_size,
        bits=form.bits,
        mode=form.mode,
    ).astype(dtype)


def packed_shapes(
    shape: tuple[int, ...], dtype: str, form: Form
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the types and shapes of what `plain_fit` makes of a weight, by part.

    Args:
        shape: the weight's.
        dtype: its type, as safetensors call it.
        form: the form.
    """
    *rows, numbers = shape
    groups = (*rows, numbers // form.group_size)
    scales = dtype if form.mode == "affine" else "U8"
    found = {
        "weight": ("U32", (*rows, numbers * form.bits // 32)),
        "scales": (scales, groups),
        "biases": (scales, groups),
    }
    if form.mode != "affine":
        del found["biases"]
    return found


def dtype_name(dtype: Any) -> str:
    """Return a type as safetensors call it.

    Raises:
        KeyError: they have none of that kind.
    """
    return _TYPES[dtype]


def bytes_of(array: mx.array) -> memoryview:
    """Return an array's bytes as safetensors store them; it is computed for that."""
    flat = mx.contiguous(array).reshape(-1)
    if not flat.size:
        return memoryview(b"")
    raw = flat.view(mx.uint8) if flat.dtype != mx.bool_ else flat.astype(mx.uint8)
    return np.array(raw, copy=False).data


def is_finite(array: mx.array) -> bool:
    """Return whether an array holds neither infinities nor what is not a number."""
    if array.dtype not in _EXPONENTS or not array.size:
        return True
    kind, exponent = _EXPONENTS[array.dtype]
    numbers = np.frombuffer(bytes_of(array), kind)
    magnitude = kind(np.iinfo(kind).max >> 1)  # every bit but the sign
    return not any(
        bool((numbers[first : first + _CHUNK] & magnitude).max() >= exponent)
        for first in range(0, len(numbers), _CHUNK)
    )


def packing_rate(form: Form | None) -> float:
    """Return the numbers that this machine packs in a second, tried on a small weight."""
    weight = mx.random.normal((512, 2048)).astype(mx.bfloat16)
    mx.eval(weight)
    form = form or Form(bits=4, group_size=64)
    mx.eval(list(plain_fit(weight, form).values()))  # the first time, kernels are made
    start = time.perf_counter()
    mx.eval(list(plain_fit(weight, form).values()))
    return float(weight.size) / max(1e-6, time.perf_counter() - start)
