"""What an adapter adds to a layer's weights, and the weights with it, in the form that they had.

`O` outputs, `I` inputs, `R` rank, `E` experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from core.errors import BadModelFiles
from core.train.adapter import NumpyArrays, read_adapter

PARTS = ("weight", "scales", "biases")
"""A layer's tensors, the last two of which are there where it is quantized."""
_FLOATS = (mx.float32, mx.float16, mx.bfloat16)


@dataclass(frozen=True, kw_only=True)
class Update:
    """An adapter, as far as it changes weights."""

    folder: Path
    """Where the adapter lies."""
    paths: tuple[str, ...]
    """The layers that it changes, sorted."""
    arrays: NumpyArrays
    """A and B by their paths: of a linear layer [I, R] and [R, O], of experts [E, R, I] and
    [E, O, R]."""
    scale: float
    """What their product is multiplied by."""

    def added_to(self, path: str) -> mx.array:
        """Return what a layer's weights grow by: [O, I], of experts [E, O, I], float32."""
        a, b = (mx.array(self.arrays[f"{path}.{name}"]) for name in ("lora_a", "lora_b"))
        return self.scale * ((b @ a) if a.ndim == 3 else (a @ b).T)


def read_update(adapter: Path) -> Update:
    """Return what the adapter in a folder changes.

    Raises:
        BadModelFiles: it cannot be read, or is of another kind than LoRA.
    """
    arrays, scale = read_adapter(adapter)
    paths = sorted({name.rsplit(".", 1)[0] for name in arrays})
    return Update(folder=adapter, paths=tuple(paths), arrays=arrays, scale=scale)


def grown(
    path: str, parts: Mapping[str, Any], update: Update, form: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a layer's tensors with the adapter in them, each in its data type.

    Args:
        path: the layer's.
        parts: its tensors by `PARTS`.
        update: the adapter.
        form: `group_size`, `bits` and `mode`, where it is quantized.

    Raises:
        BadModelFiles: the adapter is for a layer of another shape.
    """
    weight, added = parts["weight"], update.added_to(path)
    if parts.get("scales") is None:
        _refuse_shape(path, weight.shape, added.shape)
        return {"weight": (weight.astype(mx.float32) + added).astype(weight.dtype)}
    plain = mx.dequantize(weight, *map(_wide, _quantizers(parts)), **form).astype(mx.float32)
    _refuse_shape(path, plain.shape, added.shape)
    packed = mx.quantize(plain + added, **form)
    return {
        part: array.astype(parts[part].dtype) for part, array in zip(PARTS, packed, strict=False)
    }


def _quantizers(parts: Mapping[str, Any]) -> tuple[Any, Any]:
    return parts["scales"], parts.get("biases")


def _wide(array: Any) -> Any:
    """Return scales in float32, where they are numbers and not codes of such."""
    return array.astype(mx.float32) if array is not None and array.dtype in _FLOATS else array


def _refuse_shape(path: str, weight: tuple[int, ...], added: tuple[int, ...]) -> None:
    if tuple(weight) != tuple(added):
        raise BadModelFiles(
            f"The adapter's part for {path} has the shape {tuple(added)}, the layer "
            f"{tuple(weight)}.",
            hint="Fuse it with the model that it was trained on.",
        )
