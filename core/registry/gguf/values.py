"""The numbers in GGUF's blocks as float32, and float32 rounded to the types that models have.

What each block means is left to the package `gguf`, which is handed bytes of whole rows and never a
file. NumPy has no bfloat16: such arrays are uint16 here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import BackendMissing, BadModelFiles

if TYPE_CHECKING:
    from core.registry.gguf.blocks import Array
    from core.registry.gguf.container import TensorEntry

PLAIN = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Kinds that are not blocks, and the names that others call them by."""


def floats(entry: TensorEntry, data: bytes) -> Array:
    """Return rows of a tensor as float32, [R, C].

    Raises:
        BadModelFiles: a number in them is infinite or none.
        BackendMissing: the package `gguf` is not installed, and is needed.
    """
    columns = entry.shape[-1]
    # What damaged bytes mean may overflow; the check below sees it.
    with np.errstate(all="ignore"):
        values = _decode(entry.kind, data, columns).reshape(-1, columns)
    if not np.isfinite(values).all():
        raise BadModelFiles(
            f"Tensor {entry.name!r} holds numbers that are not finite.",
            hint="The file is damaged; fetch it again or choose another one.",
        )
    return values


def rounded(values: Array, dtype: str) -> Array:
    """Return float32 numbers in another type, each the nearest one there, ties to even.

    Numbers beyond the type become infinite.
    """
    if dtype == "float32":
        return values
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16)
    bits = np.ascontiguousarray(values).view(np.uint32)
    halves: Array = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return halves


def widened(values: Array, dtype: str) -> Array:
    """Return numbers of any of the types as float32."""
    if dtype != "bfloat16":
        return values.astype(np.float32)
    wide: Array = (values.astype(np.uint32) << 16).view(np.float32)
    return wide


def is_exact(values: Array, dtype: str) -> bool:
    """Return whether every number is one of another type, too."""
    return bool(np.array_equal(widened(rounded(values, dtype), dtype), values))


def _decode(kind: str, data: bytes, columns: int) -> Array:
    if kind == "F32":
        return np.frombuffer(data, "<f4")
    if kind == "F16":
        return np.frombuffer(data, "<f2").astype(np.float32)
    if kind == "BF16":
        return widened(np.frombuffer(data, "<u2"), "bfloat16")
    gguf = _package()
    number = gguf.GGMLQuantizationType[kind]
    values, size = gguf.GGML_QUANT_SIZES[number]
    rows = np.frombuffer(data, np.uint8).reshape(-1, columns // values * size)
    decoded: Array = gguf.dequantize(rows, number)
    return decoded


def check_reader() -> None:
    """Check that blocks can be decoded.

    Raises:
        BackendMissing: the package `gguf` is not installed.
    """
    _package()


def _package() -> Any:
    try:
        import gguf
    except ImportError as problem:
        raise BackendMissing(
            "This file's weights need the Python package gguf, which is not installed.",
            hint="Install it: `pip install 'mlxbun[gguf]'`.",
        ) from problem
    return gguf
