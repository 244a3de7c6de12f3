"""GGUF's blocks of numbers, turned into MLX's packed arrays without changing a weight.

A block is 32 values along a row with a float16 step `d`, and for Q4_1 a float16 minimum `m`. MLX's
affine groups of 32 say `w = scale * q + bias` with q unsigned, which holds all three kinds:
Q4_0 `d * (q - 8)`, Q4_1 `d * q + m`, Q8_0 `d * (q + 128) - 128 * d`. Letters: R rows, C columns,
G = C / 32 groups. Knows no model and needs no MLX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from core.errors import BadModelFiles

if TYPE_CHECKING:
    from core.registry.gguf.container import TensorEntry

GROUP = 32
BITS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}

Array = npt.NDArray[Any]


def unpack(entry: TensorEntry, data: bytes) -> dict[str, Array]:
    """Return a tensor as MLX stores it.

    Returns:
        For packed kinds `weight` (uint32, [R, C * bits / 32]), `scales` and `biases` (float16,
        [R, G]);
        else `weight` alone. float32 becomes float16 where that is exact for every value.

    Raises:
        BadModelFiles: a bias of an 8-bit group is beyond float16.
    """
    if entry.kind == "F16":
        return {"weight": np.frombuffer(data, "<f2").reshape(entry.shape)}
    if entry.kind == "F32":
        return {"weight": _narrow(np.frombuffer(data, "<f4").reshape(entry.shape))}
    blocks = np.frombuffer(data, np.uint8).reshape(*entry.shape[:-1], entry.shape[-1] // GROUP, -1)
    packed = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q8_0": _q8_0}[entry.kind](blocks)
    finite = np.isfinite(packed["scales"]).all() and np.isfinite(packed["biases"]).all()
    if not finite:
        raise BadModelFiles(
            f"Tensor {entry.name!r} has a group whose scale or bias is beyond float16.",
            hint="The file is damaged; fetch it again or choose another one.",
        )
    return packed


def _narrow(values: Array) -> Array:
    with np.errstate(over="ignore"):
        half = values.astype(np.float16)
    return half if np.array_equal(half.astype(np.float32), values) else values


def _q4_0(blocks: Array) -> dict[str, Array]:
    # 18 bytes: d, then 16 bytes of two values each.
    scales = _halves(blocks[..., :2])
    return _packed(_nibbles(blocks[..., 2:]), scales, _times(scales, -8))


def _q4_1(blocks: Array) -> dict[str, Array]:
    # 20 bytes: d, m, then 16 bytes of two values each.
    return _packed(_nibbles(blocks[..., 4:]), _halves(blocks[..., :2]), _halves(blocks[..., 2:4]))


def _q8_0(blocks: Array) -> dict[str, Array]:
    # 34 bytes: d, then 32 signed bytes; flipping the top bit adds 128.
    scales = _halves(blocks[..., :2])
    return _packed(blocks[..., 2:] ^ 0x80, scales, _times(scales, -128))


def _halves(pairs: Array) -> Array:
    halves: Array = np.ascontiguousarray(pairs).view("<f2")
    return halves[..., 0]


def _times(scales: Array, factor: int) -> Array:
    # A power of two: exact, unless it leaves float16's range, which `unpack` refuses.
    with np.errstate(over="ignore", invalid="ignore"):
        product: Array = scales * np.float16(factor)
    return product


def _nibbles(data: Array) -> Array:
    # The block keeps value i in the low half of byte i and value i + 16 in its high half;
    # MLX wants neighbours together, the first one low.
    values = np.concatenate([data & 0x0F, data >> 4], axis=-1)
    pairs: Array = values[..., 0::2] | (values[..., 1::2] << 4)
    return pairs


def _packed(data: Array, scales: Array, biases: Array) -> dict[str, Array]:
    # [R, G, bytes] → [R, words]
    words = np.ascontiguousarray(data).reshape(*data.shape[:-2], -1).view("<u4")
    return {"weight": words, "scales": scales, "biases": biases}
