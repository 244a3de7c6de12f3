"""The GGUF container: header, metadata and the table of tensors, every number checked.

A GGUF file is foreign input, so nothing here trusts a count, a length or an offset: each is held
against the size of the file before anything is read or allocated. Knows how many bytes a tensor
takes; does not know what its blocks mean, nor any model.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from core.errors import BadModelFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_ITEMS = 2**22  # entries of one table or array; the largest vocabularies have 2**18
MAX_TEXT = 2**24  # bytes of one string
MAX_NAME = 256  # characters of a tensor's name; the format allows 64
HINT = "Fetch the file again, or choose another one."

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
            12: "d"}  # fmt: skip
_TEXT = 8
_ARRAY = 9

# Tensor type -> (name, values in a block, bytes of a block).
BLOCKS = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    8: ("Q8_0", 32, 34),
}
_OTHER_TYPES = {6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K",
                14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
                20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 28: "F64", 29: "IQ1_M",
                30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TensorEntry:
    """One row of the tensor table."""

    name: str
    """As in the file: `blk.0.attn_q.weight`."""
    kind: str
    """F32, F16, Q4_0, Q4_1 or Q8_0."""
    shape: tuple[int, ...]
    """Outermost first: rows, columns. The file has them the other way round."""
    offset: int
    """First byte, counted from the start of the file."""
    size: int
    """Bytes in the file; offset + size lies within it."""


@dataclass(frozen=True, kw_only=True)
class GgufFile:
    """A GGUF file whose header holds together."""

    path: Path
    """Where it lies."""
    metadata: Mapping[str, Any]
    """Numbers, texts, and tuples of them."""
    tensors: Mapping[str, TensorEntry]
    """By name."""

    def read(self, entry: TensorEntry) -> bytes:
        """Return the bytes of one tensor.

        Raises:
            BadModelFiles: the file got shorter since it was opened.
        """
        with self.path.open("rb") as file:
            file.seek(entry.offset)
            data = file.read(entry.size)
        if len(data) != entry.size:
            raise BadModelFiles(f"{self.path.name} ends within {entry.name!r}.", hint=HINT)
        return data


def read_gguf(path: Path) -> GgufFile:
    """Read and check the header of a GGUF file.

    Raises:
        BadModelFiles: not a GGUF file, cut short, inconsistent, or with a tensor type that mlxbun
            does not read.
        OSError: the file cannot be opened.
    """
    with path.open("rb") as file:
        reader = _Reader(file, name=path.name)
        if reader.take(4) != MAGIC:
            raise BadModelFiles(f"{path.name} is not a GGUF file.", hint=HINT)
        version = reader.number("I")
        if version not in VERSIONS:
            raise reader.bad(f"has GGUF version {version}, and mlxbun reads 2 and 3")
        tensor_count = reader.count()
        metadata = _read_metadata(reader, reader.count())
        rows = [_read_row(reader) for _ in range(tensor_count)]
        start = _align(reader.position, _alignment(reader, metadata))
        tensors = _place(reader, rows, start)
    return GgufFile(path=path, metadata=metadata, tensors=tensors)


class _Reader:
    """Takes typed values off a file and never past its end."""

    def __init__(self, file: IO[bytes], *, name: str) -> None:
        self._file = file
        self._name = name
        self.size = os.fstat(file.fileno()).st_size
        self.position = 0

    def bad(self, what: str) -> BadModelFiles:
        return BadModelFiles(f"{self._name} {what}.", hint=HINT)

    def take(self, count: int) -> bytes:
        data = self._file.read(count) if count <= self.size - self.position else b""
        if len(data) != count:
            raise self.bad("is cut short: it ends within its header")
        self.position += count
        return data

    def number(self, code: str) -> Any:
        code = "<" + code
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def count(self) -> int:
        count: int = self.number("Q")
        if count > MAX_ITEMS:
            raise self.bad(f"is damaged: it claims {count} entries in one table")
        return count

    def text(self) -> str:
        length = self.number("Q")
        if length > MAX_TEXT:
            raise self.bad(f"is damaged: it claims a text of {length} bytes")
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise self.bad("is damaged: a text in its header is not UTF-8") from None


def _read_metadata(reader: _Reader, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(count):
        key = reader.text()
        if key in metadata:
            raise reader.bad(f"is damaged: its metadata names {key!r:.80} twice")
        metadata[key] = _read_value(reader, reader.number("I"))
    return metadata


def _read_value(reader: _Reader, kind: int) -> Any:
    if kind == _TEXT:
        return reader.text()
    if kind == _ARRAY:
        return _read_array(reader, reader.number("I"), reader.count())
    if kind not in _SCALARS:
        raise reader.bad(f"is damaged: its metadata holds a value of unknown type {kind}")
    return reader.number(_SCALARS[kind])


def _read_array(reader: _Reader, kind: int, count: int) -> tuple[Any, ...]:
    if kind == _TEXT:
        return tuple(reader.text() for _ in range(count))
    if kind not in _SCALARS:
        raise reader.bad(f"is damaged: its metadata holds an array of unknown type {kind}")
    code = f"<{count}{_SCALARS[kind]}"
    return struct.unpack(code, reader.take(struct.calcsize(code)))


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A tensor's row as written, nothing checked yet."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


def _read_row(reader: _Reader) -> _Row:
    name = reader.text()
    if len(name) > MAX_NAME:
        raise reader.bad(f"is damaged: it has a tensor name of {len(name)} characters")
    dimensions = reader.number("I")
    if not 1 <= dimensions <= 4:
        raise reader.bad(f"is damaged: tensor {name!r} has {dimensions} dimensions")
    shape = tuple(reader.number("Q") for _ in range(dimensions))[::-1]
    return _Row(name=name, shape=shape, kind=reader.number("I"), offset=reader.number("Q"))


def _alignment(reader: _Reader, metadata: Mapping[str, Any]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 2**20:
        raise reader.bad(f"is damaged: its alignment is {alignment!r}")
    return alignment


def _align(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _place(reader: _Reader, rows: list[_Row], start: int) -> dict[str, TensorEntry]:
    tensors: dict[str, TensorEntry] = {}
    for row in rows:
        if row.name in tensors:
            raise reader.bad(f"is damaged: it holds tensor {row.name!r} twice")
        entry = _entry(reader, row, start)
        if entry.offset + entry.size > reader.size:
            raise reader.bad(f"is cut short: tensor {row.name!r} lies beyond its end")
        tensors[row.name] = entry
    return tensors


def _entry(reader: _Reader, row: _Row, start: int) -> TensorEntry:
    if row.kind not in BLOCKS:
        kind = _OTHER_TYPES.get(row.kind, f"number {row.kind}")
        raise BadModelFiles(
            f"Tensor {row.name!r} is of type {kind}, which mlxbun cannot import.",
            hint=f"Choose a file in one of {', '.join(name for name, *_ in BLOCKS.values())}.",
        )
    kind, values, size = BLOCKS[row.kind]
    count = 1
    for length in row.shape:
        count *= length
    if count == 0 or row.shape[-1] % values:
        raise reader.bad(f"is damaged: tensor {row.name!r} has the shape {row.shape}")
    return TensorEntry(
        name=row.name,
        kind=kind,
        shape=row.shape,
        offset=start + row.offset,
        size=count // values * size,
    )
