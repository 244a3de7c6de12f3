"""Writes a safetensors file tensor by tensor, so that a model need not fit in memory twice.

The header comes first in the file and is known last: room for it is left in front, and what it
does not use is filled with spaces, as the format allows.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    import numpy as np
    import numpy.typing as npt

_TYPES = {"float32": "F32", "float16": "F16", "uint32": "U32"}
_ROOM_PER_TENSOR = 256  # bytes of the header; names are some 60 long, the rest takes under 120


class SafetensorsWriter:
    """A safetensors file under way; the header is written on leaving the `with` block."""

    def __init__(self, target: Path, *, tensors: int, metadata: Mapping[str, str]) -> None:
        """Open the file; `tensors` is the most that will be added."""
        self._room = 1024 + tensors * _ROOM_PER_TENSOR
        self._file = target.open("wb")
        self._header: dict[str, Any] = {"__metadata__": dict(metadata)}
        self._position = 0

    def __enter__(self) -> SafetensorsWriter:
        """Leave room for the header."""
        self._file.seek(8 + self._room)
        return self

    def add(self, name: str, array: npt.NDArray[np.generic]) -> None:
        """Append one tensor.

        Raises:
            OSError: the disk is full.
        """
        data = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        end = self._position + array.nbytes
        self._header[name] = {
            "dtype": _TYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [self._position, end],
        }
        self._file.write(data.data)
        self._position = end

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the header, unless an error is passing through."""
        with self._file:
            if error is None:
                self._file.seek(0)
                self._file.write(self._room.to_bytes(8, "little") + self._padded_header())
                self._file.flush()
                os.fsync(self._file.fileno())

    def _padded_header(self) -> bytes:
        header = json.dumps(self._header, separators=(",", ":")).encode("utf-8")
        if len(header) > self._room:
            raise OSError(f"the list of tensors takes {len(header)} bytes, more than {self._room}")
        return header.ljust(self._room)
