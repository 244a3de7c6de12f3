"""A safetensors file whose tensors are known beforehand and may come in any order.

The header is written first, so every tensor has its place from the beginning: an interrupted
writer continues in the same file, and the bytes do not depend on where it stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from core.registry.weights import ITEM_BYTES

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

SHARD_BYTES = 5 << 30
"""The most bytes of tensors in one file of several, as mlx-lm splits models."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """The place of one tensor."""

    name: str
    """Its name."""
    dtype: str
    """`F16`, `U32` and so on."""
    shape: tuple[int, ...]
    """Its shape."""

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return prod(self.shape) * ITEM_BYTES[self.dtype]


def shards(slots: Sequence[Slot], *, stem: str = "model") -> dict[str, list[Slot]]:
    """Distribute tensors over files, and return those of each by the file's name.

    A tensor larger than the limit gets a file of its own.

    Args:
        slots: the tensors, in their order.
        stem: what the files are called: `model.safetensors`, or `model-00001-of-00002.safetensors`.
    """
    parts: list[list[Slot]] = [[]]
    size = 0
    for slot in slots:
        if parts[-1] and size + slot.nbytes > SHARD_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(slot)
        size += slot.nbytes
    if len(parts) == 1:
        return {f"{stem}.safetensors": parts[0]}
    count = len(parts)
    return {
        f"{stem}-{number:05}-of-{count:05}.safetensors": part
        for number, part in enumerate(parts, 1)
    }


def index_of(files: Mapping[str, Iterable[Slot]], *, parameters: int) -> dict[str, object]:
    """Return the content of `model.safetensors.index.json`, in the form that mlx-lm writes."""
    places = {slot.name: file for file, slots in files.items() for slot in slots}
    total = sum(slot.nbytes for slots in files.values() for slot in slots)
    return {
        "metadata": {"total_size": total, "total_parameters": parameters},
        "weight_map": dict(sorted(places.items())),
    }


class TensorFile:
    """A file of tensors under way; on leaving the `with` block it is on the disk."""

    def __init__(self, path: Path, slots: Sequence[Slot], *, metadata: Mapping[str, str]) -> None:
        """Lay the file out; nothing is written yet."""
        self._path = path
        self._header, self._places = _lay_out(slots, metadata)
        self._size = len(self._header) + sum(slot.nbytes for slot in slots)
        self._descriptor = -1

    def __enter__(self) -> TensorFile:
        """Open the file, or make it.

        Raises:
            OSError: it cannot be written, or the disk is full.
        """
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(self._descriptor, self._size)
            self._write(0, memoryview(self._header))
        except OSError:
            os.close(self._descriptor)
            raise
        return self

    def put(self, name: str, data: memoryview) -> None:
        """Write one tensor.

        Raises:
            OSError: the disk is full.
            ValueError: it has another size than its place.
        """
        offset, size = self._places[name]
        if data.nbytes != size:
            raise ValueError(f"{name} has {data.nbytes} bytes, not {size}")
        self._write(offset, data)

    def read(self, name: str) -> bytes:
        """Return what lies in the place of a tensor.

        Raises:
            OSError: the file cannot be read.
        """
        offset, size = self._places[name]
        parts = []
        while size and (part := os.pread(self._descriptor, min(size, 2**30), offset)):
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return b"".join(parts)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Bring the file to the disk, unless an error is passing through."""
        try:
            if error is None:
                os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)

    def _write(self, offset: int, data: memoryview) -> None:
        while data.nbytes:
            count = os.pwrite(self._descriptor, data[: 2**30], offset)
            data, offset = data[count:], offset + count


def _lay_out(
    slots: Sequence[Slot], metadata: Mapping[str, str]
) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """Return the header with its length, and for each tensor its offset in the file and bytes."""
    entries: dict[str, object] = {"__metadata__": dict(metadata)}
    position = 0
    for slot in slots:
        end = position + slot.nbytes
        entries[slot.name] = {
            "dtype": slot.dtype,
            "shape": list(slot.shape),
            "data_offsets": [position, end],
        }
        position = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the data are aligned
    header = len(text).to_bytes(8, "little") + text
    places: dict[str, tuple[int, int]] = {}
    position = len(header)
    for slot in slots:
        places[slot.name] = (position, slot.nbytes)
        position += slot.nbytes
    return header, places
