"""Integer codes in MLX's packed layout, and the numbers that they stand for.

MLX packs the codes of a row as one little-endian stream of bits in 32-bit words, at every width
(mlx/backend/cpu/quantized.cpp): 32 codes take `bits` words. `O` outputs, `I` inputs, `G` groups of
a row; arrays may have more dimensions before these (experts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]

_WORD = 32  # bits of a word, and the number of codes after which codes and words end together


@dataclass(frozen=True, kw_only=True)
class Rounded:
    """A weight matrix in affine codes: w = scale * code + bias."""

    codes: Codes
    """[.., O, I], each below 2 ** bits."""
    scales: Floats
    """[.., O, G], each exact in the model's stored type."""
    biases: Floats
    """As the scales."""

    def values(self) -> Floats:
        """Return the weights that these codes stand for, [.., O, I]."""
        groups = self.scales.shape[-1]
        codes = self.codes.reshape(*self.scales.shape[:-1], groups, -1).astype(np.float32)
        found = codes * self.scales[..., None] + self.biases[..., None]
        return found.reshape(self.codes.shape)

    def packed(self, bits: int, dtype: mx.Dtype) -> dict[str, mx.array]:
        """Return the arrays of MLX's quantized layers.

        Args:
            bits: width of a code.
            dtype: stored type of scales and biases.
        """
        return {
            "weight": pack_codes(self.codes, bits),
            "scales": mx.array(self.scales).astype(dtype),
            "biases": mx.array(self.biases).astype(dtype),
        }


def pack_codes(codes: Codes, bits: int) -> mx.array:
    """Return codes [.., I] as MLX packs them: uint32 [.., I * bits / 32].

    Args:
        codes: integers below 2 ** bits; `I` is a multiple of 32.
        bits: width of a code, 1 to 8.
    """
    lanes = codes.reshape(*codes.shape[:-1], -1, _WORD)
    words = np.zeros((*lanes.shape[:-1], bits), np.uint32)
    for lane in range(_WORD):
        word, shift = divmod(lane * bits, _WORD)
        code = lanes[..., lane].astype(np.uint32)
        words[..., word] |= code << np.uint32(shift)
        if shift + bits > _WORD:
            words[..., word + 1] |= code >> np.uint32(_WORD - shift)
    return mx.array(words.reshape(*codes.shape[:-1], -1))


def unpack_codes(packed: mx.array, bits: int) -> Codes:
    """Return the codes [.., I] of a packed array [.., I * bits / 32]."""
    words = np.array(packed)
    words = words.reshape(*words.shape[:-1], -1, bits).astype(np.uint64)
    codes = np.empty((*words.shape[:-1], _WORD), np.uint8)
    for lane in range(_WORD):
        word, shift = divmod(lane * bits, _WORD)
        value = words[..., word] >> np.uint64(shift)
        if shift + bits > _WORD:
            value = value | (words[..., word + 1] << np.uint64(_WORD - shift))
        codes[..., lane] = value & np.uint64(2**bits - 1)
    return codes.reshape(*packed.shape[:-1], -1)


def stored(values: Floats, dtype: mx.Dtype) -> Floats:
    """Return values rounded to a stored type (float16, bfloat16 or float32), as float32."""
    if dtype == mx.float32:
        return values.astype(np.float32)
    if dtype == mx.float16:
        with np.errstate(over="ignore"):  # what overflows is infinite, and refused as such
            return values.astype(np.float16).astype(np.float32)
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    nearest_even = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return ((bits + nearest_even) & np.uint32(0xFFFF0000)).view(np.float32)


def as_floats(array: Any) -> Floats:
    """Return an MLX array as float32 in NumPy."""
    return np.array(array.astype(mx.float32))
