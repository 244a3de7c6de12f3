"""Safetensors files as far as their headers tell. Reads no tensor bytes.

Source of the format: the safetensors README (8 bytes little-endian header length, a JSON header of
`{name: {dtype, shape, data_offsets}}`, then the data).
"""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any

from core.errors import BadModelFiles
from core.registry.files import is_lfs_pointer, open_regular, printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WEIGHTS = "model*.safetensors"  # the files that mlx-lm loads

_HEADER_LIMIT = 100_000_000  # the format's own bound
_MOST_AXES = 16
_LONGEST_AXIS = 2**48
ITEM_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 8),
}


class BrokenWeightsError(Exception):
    """A file that is no whole safetensors file; the text is why, as a clause."""


def read_header(path: Path) -> dict[str, Any]:
    """Return the tensors of one file by name, each with `dtype`, `shape` and `data_offsets`.

    Raises:
        BadModelFiles: the file cannot be read, is no safetensors file, or is cut short.
    """
    try:
        return parse_header(path)
    except BrokenWeightsError as problem:
        raise BadModelFiles(
            f"The weights file {path} is broken: {problem}.", hint="Download the model again."
        ) from problem


def parse_header(path: Path) -> dict[str, Any]:
    """Return the tensors of one file, as `read_header`.

    Raises:
        BrokenWeightsError: the file cannot be read, is no safetensors file, or is cut short.
    """
    try:
        raw, size = _read_raw(path)
        header = json.loads(raw.decode())
    except OSError as problem:
        raise BrokenWeightsError(problem.strerror or str(problem)) from problem
    except (ValueError, RecursionError) as problem:
        raise BrokenWeightsError("its header is not JSON") from problem
    if not isinstance(header, dict):
        raise BrokenWeightsError("its header is no JSON object")
    header.pop("__metadata__", None)
    end = max((_checked_end(name, tensor) for name, tensor in header.items()), default=0)
    if size < 8 + len(raw) + end:
        raise BrokenWeightsError(f"it has {size} of {8 + len(raw) + end} bytes")
    return header


def read_headers(folder: Path) -> dict[str, Any]:
    """Return the tensors of all files of weights in a folder by name, as `read_header`.

    Raises:
        BadModelFiles: as `read_header`, or two files hold a tensor of the same name.
    """
    found: dict[str, Any] = {}
    for file in sorted(folder.glob(WEIGHTS)):
        header = read_header(file)
        if twice := sorted(found.keys() & header.keys()):
            raise BadModelFiles(
                f"{printable(str(file), 300)} holds {printable(twice[0])}, which another file of "
                "the model holds, too.",
                hint="Delete the files of weights that do not belong to the model.",
            )
        found |= header
    return found


def check_weights(folder: Path) -> int:
    """Return the bytes of all tensors in a model folder, each file checked to be whole.

    Raises:
        BadModelFiles: no weights, or a file that is missing, broken or cut short.
    """
    files = sorted(folder.glob(WEIGHTS))
    if not files:
        raise BadModelFiles(
            f"There are no weights ({WEIGHTS}) in {folder}.",
            hint="Download the model again, or name a folder that holds one.",
        )
    return sum(tensor_bytes(tensor) for file in files for tensor in read_header(file).values())


def count_tensors(folder: Path) -> int:
    """Return how many tensors a model folder holds.

    Raises:
        BadModelFiles: a file that is broken or cut short.
    """
    return sum(len(read_header(file)) for file in folder.glob(WEIGHTS))


def tensor_bytes(tensor: Mapping[str, Any]) -> int:
    """Return the bytes of one tensor of a header."""
    start, end = tensor["data_offsets"]
    return int(end - start)


def _read_raw(path: Path) -> tuple[bytes, int]:
    """Return the header as it stands in the file, and the file's size."""
    if is_lfs_pointer(path):
        raise BrokenWeightsError("it is a Git LFS pointer, not the weights")
    with open_regular(path) as (file, size):
        start = file.read(8)
        if len(start) < 8:
            raise BrokenWeightsError(f"it has {size} bytes")
        (length,) = struct.unpack("<Q", start)
        if length > min(_HEADER_LIMIT, size - 8):
            raise BrokenWeightsError(f"its header should be {length} bytes")
        return file.read(length), size


def _checked_end(name: str, tensor: Any) -> int:
    """Return where a tensor's data end, once its description holds together."""
    try:
        kind, shape = tensor["dtype"], tensor["shape"]
        start, end = tensor["data_offsets"]
    except (TypeError, KeyError, ValueError) as problem:
        raise BrokenWeightsError("its header lacks data offsets") from problem
    sound = isinstance(shape, list) and len(shape) <= _MOST_AXES and isinstance(kind, str)
    if not sound or not _are_counts((*shape, start, end)) or start > end:
        raise BrokenWeightsError(f"its header describes {printable(name)} wrongly")
    width = ITEM_BYTES.get(kind)  # of kinds below a byte, and of kinds to come, nothing is known
    if width is not None and math.prod(shape) * width != end - start:
        raise BrokenWeightsError(f"its header gives {printable(name)} a wrong size")
    return int(end)


def _are_counts(values: tuple[Any, ...]) -> bool:
    return all(type(value) is int and 0 <= value < _LONGEST_AXIS for value in values)
