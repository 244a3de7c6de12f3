"""Safetensors files as far as their headers tell. Reads no tensor bytes.

Source of the format: the safetensors README (8 bytes little-endian header length, a JSON header of
`{name: {dtype, shape, data_offsets}}`, then the data).
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

from core.errors import BadModelFiles

if TYPE_CHECKING:
    from pathlib import Path

_HEADER_LIMIT = 100_000_000  # the format's own bound


def read_header(path: Path) -> dict[str, Any]:
    """Return the tensors of one file by name, each with `dtype`, `shape` and `data_offsets`.

    Raises:
        BadModelFiles: the file cannot be read, is no safetensors file, or is cut short.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            if len(start) < 8:
                raise _broken(path, f"it has {size} bytes")
            (length,) = struct.unpack("<Q", start)
            if length > min(_HEADER_LIMIT, size - 8):
                raise _broken(path, f"its header should be {length} bytes")
            header = json.loads(file.read(length))
    except (OSError, ValueError, RecursionError) as problem:
        raise _broken(path, str(problem)) from problem
    if not isinstance(header, dict):
        raise _broken(path, "its header is no JSON object")
    header.pop("__metadata__", None)
    try:
        end = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
    except (TypeError, KeyError, IndexError) as problem:
        raise _broken(path, "its header lacks data offsets") from problem
    if size < 8 + length + end:
        raise _broken(path, f"it has {size} of {8 + length + end} bytes")
    return header


def check_weights(folder: Path) -> int:
    """Return the bytes of all tensors in a model folder, each file checked to be whole.

    Raises:
        BadModelFiles: no weights, or a file that is missing, broken or cut short.
    """
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise BadModelFiles(
            f"There are no weights (model*.safetensors) in {folder}.",
            hint="Download the model again, or name a folder that holds one.",
        )
    headers = [read_header(file) for file in files]
    return sum(
        tensor["data_offsets"][1] - tensor["data_offsets"][0]
        for header in headers
        for tensor in header.values()
    )


def count_tensors(folder: Path) -> int:
    """Return how many tensors a model folder holds.

    Raises:
        BadModelFiles: a file that is broken or cut short.
    """
    return sum(len(read_header(file)) for file in folder.glob("model*.safetensors"))


def _broken(path: Path, reason: str) -> BadModelFiles:
    return BadModelFiles(
        f"The weights file {path} is broken: {reason}.", hint="Download the model again."
    )
