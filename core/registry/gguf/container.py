"""The GGUF container: header, metadata and the table of tensors, every number checked.

A GGUF file is foreign input, so nothing here trusts a count, a length or an offset: each is held
against the size of the file before anything is read or allocated. A model may be split into several
files (`name-00001-of-00003.gguf`); the first one has the metadata. Knows how many bytes a tensor
takes; does not know what its blocks mean, nor any model.
"""

from __future__ import annotations

import math
import os
import re
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
MAX_HEADER = 2**26  # bytes before the tensors; the largest vocabularies take some 2**24
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
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}
_OTHER_TYPES = {9: "Q8_1", 15: "Q8_K", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
                40: "NVFP4", 41: "Q1_0"}  # fmt: skip
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
MAX_PARTS = 1000  # files of one model


@dataclass(frozen=True, kw_only=True)
class TensorEntry:
    """One row of the tensor table."""

    name: str
    """As in the file: `blk.0.attn_q.weight`."""
    kind: str
    """GGUF's name of its type: F16, Q4_K."""
    shape: tuple[int, ...]
    """Outermost first: rows, columns. The file has them the other way round."""
    offset: int
    """First byte, counted from the start of the file."""
    size: int
    """Bytes in the file; offset + size lies within it."""
    path: Path
    """The file that holds it."""

    @property
    def row_size(self) -> int:
        """Bytes of one row, which is a whole number of blocks."""
        return self.size * self.shape[-1] // math.prod(self.shape)

    @property
    def rows(self) -> int:
        """Rows, those of all outer dimensions together."""
        return math.prod(self.shape[:-1])


@dataclass(frozen=True, kw_only=True)
class GgufFile:
    """A GGUF file whose header holds together."""

    path: Path
    """Where it lies; of a split model, its first file."""
    metadata: Mapping[str, Any]
    """Numbers, texts, and tuples of them."""
    tensors: Mapping[str, TensorEntry]
    """By name."""

    def read(self, entry: TensorEntry, first: int = 0, rows: int | None = None) -> bytes:
        """Return the bytes of some rows of a tensor; by default those of all.

        Raises:
            BadModelFiles: the file got shorter since it was opened.
        """
        size = (entry.rows - first if rows is None else rows) * entry.row_size
        with entry.path.open("rb") as file:
            file.seek(entry.offset + first * entry.row_size)
            data = file.read(size)
        if len(data) != size:
            raise BadModelFiles(f"{entry.path.name} ends within {entry.name!r}.", hint=HINT)
        return data


def read_gguf(path: Path) -> GgufFile:
    """Read and check the header of a GGUF file, or of all files of a split model.

    Args:
        path: the file; of a split model, any of its files.

    Raises:
        BadModelFiles: not a GGUF file, cut short, inconsistent, with a tensor type that mlxbun
            does not read, or a file of a split model is missing.
        OSError: a file cannot be opened.
    """
    paths = _parts(path)
    whole = _read_file(paths[0])
    count = whole.metadata.get("split.count", 1)
    if len(paths) == 1 and isinstance(count, int) and count > 1:
        raise BadModelFiles(
            f"{path.name} is one of {count} files of a model, and its name does not say which.",
            hint="Give the files their names back: NAME-00001-of-00003.gguf.",
        )
    tensors = dict(whole.tensors)
    for part in paths[1:]:
        more = _read_file(part).tensors
        if twice := sorted(tensors.keys() & more.keys()):
            raise BadModelFiles(f"{part.name} holds {twice[0]!r} a second time.", hint=HINT)
        tensors |= more
    return GgufFile(path=paths[0], metadata=whole.metadata, tensors=tensors)


def plain_stem(path: Path) -> str:
    """Return a file's name without ending, and without its number in a split model."""
    found = _PART.fullmatch(path.name)
    return found[1] if found else path.stem


def _parts(path: Path) -> list[Path]:
    """Return all files of a model, in their order."""
    found = _PART.fullmatch(path.name)
    if found is None:
        return [path]
    count = int(found[3])
    if not 1 <= count <= MAX_PARTS:
        raise BadModelFiles(f"{path.name} claims {count} files in its name.", hint=HINT)
    ending = path.name[-len(".gguf") :]
    names = [f"{found[1]}-{number:05}-of-{found[3]}{ending}" for number in range(1, count + 1)]
    paths = [path.with_name(name) for name in names]
    if missing := [part.name for part in paths if not part.is_file()]:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise BadModelFiles(
            f"{missing[0]}{others} is missing: the model is split into {count} files.",
            hint=f"Put all {count} files into one folder.",
        )
    return paths


def _read_file(path: Path) -> GgufFile:
    with path.open("rb") as file:
        reader = _Reader(file, path=path)
        if reader.take(4) != MAGIC:
            raise BadModelFiles(f"{path.name} is not a GGUF file.", hint=HINT)
        version = reader.number("I")
        if version not in VERSIONS:
            raise reader.bad(f"has GGUF version {version}, and mlxbun reads 2 and 3")
        tensor_count = reader.count()
        metadata = _read_metadata(reader, reader.count())
        rows = [_read_row(reader) for _ in range(tensor_count)]
        alignment = _alignment(reader, metadata)
        start = _align(reader.position, alignment)
        tensors = _place(reader, rows, start, alignment)
    return GgufFile(path=path, metadata=metadata, tensors=tensors)


class _Reader:
    """Takes typed values off a file and never past its end."""

    def __init__(self, file: IO[bytes], *, path: Path) -> None:
        self._file = file
        self.path = path
        self.size = os.fstat(file.fileno()).st_size
        self.position = 0

    def bad(self, what: str) -> BadModelFiles:
        return BadModelFiles(f"{self.path.name} {what}.", hint=HINT)

    def take(self, count: int) -> bytes:
        if self.position + count > MAX_HEADER:
            raise self.bad(f"is damaged: its header takes more than {MAX_HEADER} bytes")
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


def _place(reader: _Reader, rows: list[_Row], start: int, alignment: int) -> dict[str, TensorEntry]:
    tensors: dict[str, TensorEntry] = {}
    for row in rows:
        if row.name in tensors:
            raise reader.bad(f"is damaged: it holds tensor {row.name!r} twice")
        if row.offset % alignment:
            raise reader.bad(
                f"is damaged: tensor {row.name!r} does not begin at a full {alignment}"
            )
        entry = _entry(reader, row, start)
        if entry.offset + entry.size > reader.size:
            raise reader.bad(f"is cut short: tensor {row.name!r} lies beyond its end")
        tensors[row.name] = entry
    _check_overlaps(reader, tensors)
    return tensors


def _check_overlaps(reader: _Reader, tensors: Mapping[str, TensorEntry]) -> None:
    end, before = 0, ""
    for entry in sorted(tensors.values(), key=lambda entry: entry.offset):
        if entry.offset < end:
            raise reader.bad(f"is damaged: tensors {before!r} and {entry.name!r} overlap")
        end, before = entry.offset + entry.size, entry.name


def _entry(reader: _Reader, row: _Row, start: int) -> TensorEntry:
    if row.kind not in BLOCKS:
        kind = _OTHER_TYPES.get(row.kind, f"number {row.kind}")
        raise BadModelFiles(
            f"Tensor {row.name!r} is of type {kind}, which mlxbun cannot import.",
            hint=f"Choose a file in one of {', '.join(name for name, *_ in BLOCKS.values())}.",
        )
    kind, values, size = BLOCKS[row.kind]
    count = math.prod(row.shape)
    if count == 0 or row.shape[-1] % values:
        raise reader.bad(f"is damaged: tensor {row.name!r} has the shape {row.shape}")
    return TensorEntry(
        name=row.name,
        kind=kind,
        shape=row.shape,
        offset=start + row.offset,
        size=count // values * size,
        path=reader.path,
    )
