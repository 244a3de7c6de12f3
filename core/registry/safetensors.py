"""Writes a safetensors file piece by piece, so that no tensor need fit in memory.

The header comes first in the file and is known last: room for it is left in front, and what it
does not use is filled with spaces, as the format allows.
"""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    import numpy as np
    import numpy.typing as npt

_TYPES = {"float32": ("F32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2),
          "uint32": ("U32", 4), "uint8": ("U8", 1)}  # fmt: skip
_ROOM_PER_TENSOR = 256  # bytes of the header; names are some 60 long, the rest takes under 120


def tensor_size(dtype: str, shape: tuple[int, ...]) -> int:
    """Return the bytes of a tensor."""
    return _TYPES[dtype][1] * math.prod(shape)


class SafetensorsWriter:
    """A safetensors file under way; the header is written on leaving the `with` block."""

    def __init__(self, target: Path, *, tensors: int, metadata: Mapping[str, str]) -> None:
        """Open the file; `tensors` is the most that will be added."""
        self._room = 1024 + tensors * _ROOM_PER_TENSOR
        self._file = target.open("wb")
        self._header: dict[str, Any] = {"__metadata__": dict(metadata)}
        self._position = 0
        self._written: dict[str, int] = {}  # bytes that each tensor has got

    def __enter__(self) -> SafetensorsWriter:
        """Leave room for the header."""
        self._file.seek(8 + self._room)
        return self

    def add(self, name: str, array: npt.NDArray[np.generic]) -> None:
        """Append one tensor.

        Raises:
            OSError: the disk is full.
        """
        self.reserve(name, array.dtype.name, array.shape)
        self.put(name, array)

    def reserve(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Keep room for a tensor, which `put` fills.

        Args:
            name: its name.
            dtype: float32, float16, bfloat16, uint32 or uint8.
            shape: outermost first.
        """
        end = self._position + tensor_size(dtype, shape)
        self._header[name] = {
            "dtype": _TYPES[dtype][0],
            "shape": list(shape),
            "data_offsets": [self._position, end],
        }
        self._written[name] = 0
        self._position = end

    def put(self, name: str, array: npt.NDArray[np.generic]) -> None:
        """Write the next piece of a tensor that has room; bfloat16 comes as uint16.

        Raises:
            ValueError: the tensor has no room for it.
            OSError: the disk is full.
        """
        start, end = self._header[name]["data_offsets"]
        place = start + self._written[name]
        if place + array.nbytes > end:
            raise ValueError(f"more bytes than tensor {name} has")
        data = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        self._file.seek(8 + self._room + place)
        self._file.write(data.data)
        self._written[name] += array.nbytes

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the header, unless an error is passing through.

        Raises:
            ValueError: a tensor was not written to its end.
        """
        with self._file:
            if error is None:
                self._check_whole()
                self._file.seek(0)
                self._file.write(self._room.to_bytes(8, "little") + self._padded_header())
                self._file.flush()
                os.fsync(self._file.fileno())

    def _check_whole(self) -> None:
        for name, written in self._written.items():
            start, end = self._header[name]["data_offsets"]
            if written != end - start:
                raise ValueError(f"tensor {name} has {written} of {end - start} bytes")

    def _padded_header(self) -> bytes:
        header = json.dumps(self._header, separators=(",", ":")).encode("utf-8")
        if len(header) > self._room:
            raise OSError(f"the list of tensors takes {len(header)} bytes, more than {self._room}")
        return header.ljust(self._room)
