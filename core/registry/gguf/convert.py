"""How each tensor of a GGUF file is stored in MLX's format, and the tensors, piece by piece.

Kinds that MLX packs in the same grid stay as they are; of the others the values are computed and
rounded to 16 bits, or packed anew where that is asked for. Plain numbers keep their type, unless
the type of the other tensors holds every one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.errors import BadModelFiles
from core.registry.gguf.blocks import KEPT, Packing, pack
from core.registry.gguf.values import PLAIN, check_reader, floats, is_exact, rounded
from core.registry.safetensors import tensor_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from core.registry.gguf.blocks import Array
    from core.registry.gguf.container import GgufFile, TensorEntry
    from core.registry.gguf.layout import Target

_PIECE = 2**22  # numbers that are converted at once


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the caller asks for."""

    dequantize: bool = False
    """Keep nothing packed."""
    requantize: int | None = None
    """Pack what cannot be kept in so many bits, affine; None: leave it unpacked."""
    dtype: str | None = None
    """Type of all numbers that are not packed: float16 or bfloat16; None: see the module."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """How one tensor is stored."""

    entry: TensorEntry
    """What the file holds."""
    target: Target
    """Where it goes."""
    packing: Packing | None
    """How it is packed; None: it is not."""
    dtype: str
    """Type of its numbers or, where it is packed, of its scales."""
    reason: str
    """What happens to it and why, for people."""

    @property
    def label(self) -> str:
        """How it is stored, in a word or two: `4-bit g32`, `float16`."""
        return self.packing.label if self.packing else self.dtype

    @property
    def arrays(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of its arrays, by their full names."""
        if self.packing is None:
            return {self.target.name: (self.dtype, self.entry.shape)}
        parts = self.packing.parts(self.entry.shape, self.dtype)
        return {f"{self.target.path}.{part}": form for part, form in parts.items()}

    @property
    def size(self) -> int:
        """Bytes of its arrays."""
        return sum(tensor_size(*form) for form in self.arrays.values())


def settle(
    gguf: GgufFile, plan: Mapping[str, Target], wishes: Wishes, *, wide: bool
) -> tuple[list[Stored], str]:
    """Return how the tensors are stored, in the file's order, and the model's 16-bit type.

    Reads plain numbers as far as it takes to find one that the 16-bit type does not hold.

    Args:
        gguf: the file.
        plan: where its tensors go.
        wishes: what the caller asks for.
        wide: the model's activations may leave float16's range.

    Raises:
        BadModelFiles: plain numbers in the file are not finite.
        BackendMissing: the package `gguf` is not installed, and is needed.
    """
    kinds = {name: gguf.tensors[name] for name in plan}
    usual = wishes.dtype or _usual_type(kinds, wishes, wide=wide)
    stored = [_settled(gguf, kinds[name], plan[name], wishes, usual) for name in plan]
    if any(one.entry.kind not in PLAIN and one.reason != "kept" for one in stored):
        check_reader()
    return stored, usual


def pieces(gguf: GgufFile, stored: Stored) -> Iterator[tuple[int, dict[str, Array]]]:
    """Yield the arrays of a tensor by rows, under their full names, and the bytes read for them.

    Raises:
        BadModelFiles: numbers in it are out of range.
        BackendMissing: the package `gguf` is not installed, and is needed.
    """
    entry, target = stored.entry, stored.target
    for first, rows in _spans(entry, target.heads):
        data = gguf.read(entry, first, rows)
        if stored.packing is not None and KEPT.get(entry.kind) == stored.packing:
            parts = pack(entry, data)
        else:
            values = floats(entry, data) - np.float32(target.shift)
            parts = _requantized(values, stored) if stored.packing else _plain(values, stored)
        head = entry.rows // target.heads if target.heads else None
        ordered = {
            f"{target.path}.{part}": _usual_order(array, head) for part, array in parts.items()
        }
        yield len(data), ordered


def _usual_type(kinds: Mapping[str, TensorEntry], wishes: Wishes, *, wide: bool) -> str:
    """Return the type of the scales that are kept; where none are, one that suits the model."""
    blocks = [entry for entry in kinds.values() if entry.kind not in PLAIN]
    if any(_why_not_kept(entry, wishes) is None for entry in blocks):
        return "float16"
    sizes = {
        kind: sum(entry.size for entry in kinds.values() if entry.kind == kind)
        for kind in ("F16", "BF16")
    }
    if not blocks and sizes["F16"] != sizes["BF16"]:
        return "bfloat16" if sizes["BF16"] > sizes["F16"] else "float16"
    return "bfloat16" if wide else "float16"


def _settled(
    gguf: GgufFile, entry: TensorEntry, target: Target, wishes: Wishes, usual: str
) -> Stored:
    def stored(reason: str, packing: Packing | None = None, dtype: str = usual) -> Stored:
        return Stored(entry=entry, target=target, packing=packing, dtype=dtype, reason=reason)

    if entry.kind in PLAIN:
        dtype, reason = _plain_type(gguf, entry, target, wishes, usual)
        return stored(reason, dtype=dtype)
    why = _why_not_kept(entry, wishes)
    if why is None:
        return stored("kept", KEPT[entry.kind])
    packing = _new_packing(entry, wishes)
    if packing is not None:
        return stored(f"requantized: {why}", packing)
    return stored(f"dequantized: {why}")


def _why_not_kept(entry: TensorEntry, wishes: Wishes) -> str | None:
    """Return why a packed tensor cannot stay so, as a clause; None: it can."""
    packing = KEPT.get(entry.kind)
    if packing is None:
        return "MLX has no such grid"
    if wishes.dequantize:
        return "as asked"
    if len(entry.shape) != 2:
        return "it is not a matrix"
    if packing.mode == "affine" and wishes.dtype == "bfloat16":
        return "its scales are float16"
    return None


def _new_packing(entry: TensorEntry, wishes: Wishes) -> Packing | None:
    group = next((size for size in (64, 32) if entry.shape[-1] % size == 0), None)
    if wishes.requantize is None or group is None or len(entry.shape) != 2:
        return None
    return Packing(bits=wishes.requantize, group_size=group)


def _plain_type(
    gguf: GgufFile, entry: TensorEntry, target: Target, wishes: Wishes, usual: str
) -> tuple[str, str]:
    """Return the type that plain numbers get, and what that means for them."""
    own = "float32" if target.shift else PLAIN[entry.kind]
    if own == usual:
        return own, "kept"
    spans = _spans(entry, None)
    read = (floats(entry, gguf.read(entry, *span)) - np.float32(target.shift) for span in spans)
    if all(is_exact(values, usual) for values in read):
        return usual, "kept"
    return (usual, "rounded: as asked") if wishes.dtype else (own, "kept")


def _spans(entry: TensorEntry, heads: int | None) -> Iterator[tuple[int, int]]:
    """Yield first row and number of rows of pieces; heads stay whole."""
    unit = entry.rows // heads if heads else 1
    step = max(_PIECE // entry.shape[-1] // unit, 1) * unit
    for first in range(0, entry.rows, step):
        yield first, min(step, entry.rows - first)


def _plain(values: Array, stored: Stored) -> dict[str, Array]:
    array = rounded(values, stored.dtype)
    if stored.dtype == "float16" and not np.isfinite(array).all():
        raise BadModelFiles(
            f"Tensor {stored.entry.name!r} holds numbers beyond float16.",
            hint="Import it with --dtype bfloat16.",
        )
    return {stored.target.part: array}


def _requantized(values: Array, stored: Stored) -> dict[str, Array]:
    import mlx.core as mx

    assert stored.packing is not None
    numbers = mx.array(_plain(values, stored)[stored.target.part])
    if stored.dtype == "bfloat16":
        numbers = numbers.view(mx.bfloat16)
    weight, scales, biases = mx.quantize(
        numbers, group_size=stored.packing.group_size, bits=stored.packing.bits
    )
    halves = mx.uint16 if stored.dtype == "bfloat16" else mx.float16
    return {
        "weight": np.array(weight),
        "scales": np.array(scales.view(halves)),
        "biases": np.array(biases.view(halves)),
    }


def _usual_order(array: Array, head: int | None) -> Array:
    """Return rows in MLX's order; `head` is the rows of a head, None: they lie so already."""
    if head is None:
        return array
    # GGUF interleaves the two halves of each head (rotation of neighbours); MLX and Hugging Face
    # keep them apart. [R, ...] → [heads, half, 2, ...] → [heads, 2, half, ...].
    rows, rest = array.shape[0], array.shape[1:]
    pairs = array.reshape(rows // head, head // 2, 2, *rest)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, *rest)
