"""GGUF's blocks of numbers, turned into MLX's packed arrays without changing a weight.

A block is 32 values along a row with a float16 step `d`, and for Q4_1 and Q5_1 a float16 minimum
`m`. MLX's affine groups of 32 say `w = scale * q + bias` with q unsigned, which holds five kinds:
Q4_0 `d * (q - 8)`, Q4_1 `d * q + m`, Q5_0 `d * (q - 16)`, Q5_1 `d * q + m`,
Q8_0 `d * (q + 128) - 128 * d`. MXFP4 is E2M1 numbers with an E8M0 scale in both. The other kinds
have scales that are products, or groups of 16: no form of MLX holds them exactly.
Letters: R rows, C columns, G = C / 32 groups. Knows no model and needs no MLX.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from core.errors import BadModelFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.registry.gguf.container import TensorEntry

GROUP = 32

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Packing:
    """A form in which MLX packs weights."""

    bits: int
    """Bits of a number."""
    group_size: int = GROUP
    """Numbers that share a scale."""
    mode: str = "affine"
    """MLX's name of it: `affine` or `mxfp4`."""

    @property
    def label(self) -> str:
        """The form in a word or two: `5-bit g32`, `mxfp4`."""
        return f"{self.bits}-bit g{self.group_size}" if self.mode == "affine" else self.mode

    def parts(self, shape: tuple[int, ...], scale: str) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Return type and shape of the arrays that hold a tensor, by their names.

        Args:
            shape: of the tensor.
            scale: type of the scales, where they are affine.
        """
        outer, columns = shape[:-1], shape[-1]
        groups = (*outer, columns // self.group_size)
        weight = ("uint32", (*outer, columns * self.bits // 32))
        if self.mode != "affine":
            return {"weight": weight, "scales": ("uint8", groups)}
        return {"weight": weight, "scales": (scale, groups), "biases": (scale, groups)}


KEPT = {
    "Q4_0": Packing(bits=4),
    "Q4_1": Packing(bits=4),
    "Q5_0": Packing(bits=5),
    "Q5_1": Packing(bits=5),
    "Q8_0": Packing(bits=8),
    "MXFP4": Packing(bits=4, mode="mxfp4"),
}
"""The kinds that MLX packs in the same grid."""


def pack(entry: TensorEntry, data: bytes) -> dict[str, Array]:
    """Return rows of a tensor as MLX packs them.

    Args:
        entry: the tensor, of one of the kinds in `KEPT`.
        data: whole rows.

    Returns:
        `weight` (uint32, [R, C * bits / 32]), `scales` and, if affine, `biases` ([R, G]).

    Raises:
        BadModelFiles: a scale or a bias is beyond its type.
    """
    groups = entry.shape[-1] // GROUP
    blocks = np.frombuffer(data, np.uint8).reshape(-1, groups, entry.row_size // groups)
    packed = _KINDS[entry.kind](blocks)
    if not all(_is_usable(packed[name]) for name in ("scales", "biases") if name in packed):
        raise BadModelFiles(
            f"Tensor {entry.name!r} has a group whose scale or bias is out of range.",
            hint="The file is damaged; fetch it again or choose another one.",
        )
    return packed


def _is_usable(scales: Array) -> bool:
    if scales.dtype == np.uint8:  # E8M0: its highest value is NaN
        return bool((scales != 0xFF).all())
    return bool(np.isfinite(scales).all())


def _q4_0(blocks: Array) -> dict[str, Array]:
    # 18 bytes: d, then 16 bytes of two values each.
    scales = _halves(blocks[..., :2])
    return _packed(_nibbles(blocks[..., 2:]), scales, _times(scales, -8))


def _q4_1(blocks: Array) -> dict[str, Array]:
    # 20 bytes: d, m, then 16 bytes of two values each.
    return _packed(_nibbles(blocks[..., 4:]), _halves(blocks[..., :2]), _halves(blocks[..., 2:4]))


def _q5_0(blocks: Array) -> dict[str, Array]:
    # 22 bytes: d, 32 high bits, then 16 bytes of two values' low bits each.
    scales = _halves(blocks[..., :2])
    return _packed(_fives(blocks[..., 2:6], blocks[..., 6:]), scales, _times(scales, -16))


def _q5_1(blocks: Array) -> dict[str, Array]:
    # 24 bytes: d, m, 32 high bits, then 16 bytes of two values' low bits each.
    scales, biases = _halves(blocks[..., :2]), _halves(blocks[..., 2:4])
    return _packed(_fives(blocks[..., 4:8], blocks[..., 8:]), scales, biases)


def _q8_0(blocks: Array) -> dict[str, Array]:
    # 34 bytes: d, then 32 signed bytes; flipping the top bit adds 128.
    scales = _halves(blocks[..., :2])
    return _packed(blocks[..., 2:] ^ 0x80, scales, _times(scales, -128))


def _mxfp4(blocks: Array) -> dict[str, Array]:
    # 17 bytes: the scale's exponent, then 16 bytes of two values each.
    return _packed(_nibbles(blocks[..., 1:]), np.ascontiguousarray(blocks[..., 0]))


_KINDS = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0,
          "MXFP4": _mxfp4}  # fmt: skip


def _halves(pairs: Array) -> Array:
    halves: Array = np.ascontiguousarray(pairs).view("<f2")
    return halves[..., 0]


def _times(scales: Array, factor: int) -> Array:
    # A power of two: exact, unless it leaves float16's range, which `pack` refuses.
    with np.errstate(over="ignore", invalid="ignore"):
        product: Array = scales * np.float16(factor)
    return product


def _values(data: Array) -> Array:
    # The block keeps value i in the low half of byte i and value i + 16 in its high half.
    values: Array = np.concatenate([data & 0x0F, data >> 4], axis=-1)
    return values


def _nibbles(data: Array) -> Array:
    # MLX wants neighbours together, the first one low.
    values = _values(data)
    pairs: Array = values[..., 0::2] | (values[..., 1::2] << 4)
    return pairs


def _fives(high: Array, low: Array) -> Array:
    # MLX keeps 5-bit values as one stream of bits, the lowest bit of the first value first.
    top = np.unpackbits(high, axis=-1, bitorder="little")
    values = _values(low) | (top << 4)
    bits = np.unpackbits(values[..., None], axis=-1, count=5, bitorder="little")
    stream: Array = np.packbits(bits.reshape(*bits.shape[:-2], -1), axis=-1, bitorder="little")
    return stream


def _packed(data: Array, scales: Array, biases: Array | None = None) -> dict[str, Array]:
    # [R, G, bytes] → [R, words]
    words = np.ascontiguousarray(data).reshape(*data.shape[:-2], -1).view("<u4")
    parts = {"weight": words, "scales": scales}
    return parts if biases is None else {**parts, "biases": biases}


def quantization_config(packings: Mapping[str, Packing]) -> dict[str, Any]:
    """Return config.json's `quantization`: the commonest form, and the layers that differ.

    Args:
        packings: by the layer's path; not empty.
    """
    counts: dict[Packing, int] = {}
    for packing in packings.values():
        counts[packing] = counts.get(packing, 0) + 1
    usual = max(counts, key=lambda packing: counts[packing])
    mixed = any(packing.mode != usual.mode for packing in counts)
    others = {
        path: _as_config(packing, named=mixed)
        for path, packing in packings.items()
        if packing != usual
    }
    return {**_as_config(usual, named=usual.mode != "affine"), **others}


def _as_config(packing: Packing, *, named: bool) -> dict[str, Any]:
    form: dict[str, Any] = {"group_size": packing.group_size, "bits": packing.bits}
    return {**form, "mode": packing.mode} if named else form
