"""Rows out of files: JSONL, CSV and Parquet, each with the line it stands on.

Knows nothing of the formats of rows. A row that is no row is told, not raised: whoever reads
decides what to do about it.
"""

from __future__ import annotations

import csv
import json
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import NotFound, UsageProblem
from core.fields import shown
from core.rows.parquet import parquet_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

SUFFIXES = (".jsonl", ".csv", ".parquet")
"""Files that are read."""

_LONGEST_CELL = 2**27  # characters of a CSV's cell


@dataclass(frozen=True, kw_only=True)
class RawRow:
    """A row as the file has it."""

    line: int
    """Its line in the file, of a Parquet file its row, from 1."""
    values: dict[str, Any]
    """Names to JSON values."""


@dataclass(frozen=True, kw_only=True)
class BrokenRow:
    """A row that cannot be used."""

    file: str
    """The file's name."""
    line: int
    """Its line in the file, of a Parquet file its row, from 1."""
    reason: str
    """Why, as a clause: `it has no 'messages'`."""


def read_rows(file: Path) -> Iterator[RawRow | BrokenRow]:
    """Yield the rows of a JSONL, CSV or Parquet file, empty lines left out.

    Raises:
        NotFound: there is no such file.
        UsageProblem: it cannot be read, is of another kind, or is not a regular file.
        BackendMissing: it is a Parquet file, and what reads them is not installed.
    """
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise UsageProblem(
            f"{file.name} is not a kind of file that is read.",
            hint="Use .jsonl, .csv or .parquet.",
        )
    try:
        if not stat.S_ISREG(file.stat().st_mode):  # opening a pipe would wait for its writer
            raise UsageProblem(f"{file} is not a regular file.")
        yield from reader(file)
    except FileNotFoundError:
        raise NotFound(f"{file} not found") from None
    except OSError as problem:
        raise UsageProblem(f"{file} cannot be read: {problem.strerror or problem}.") from problem


def _json_rows(file: Path) -> Iterator[RawRow | BrokenRow]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if text.strip():
                yield _json_row(file.name, number, text)


def _json_row(name: str, number: int, text: bytes) -> RawRow | BrokenRow:
    try:
        values = json.loads(text.decode("utf-8"), object_pairs_hook=_each_once)
    except UnicodeDecodeError:
        return BrokenRow(file=name, line=number, reason="it is not UTF-8 text")
    except json.JSONDecodeError as problem:
        told = f"it is not JSON ({problem.msg}, column {problem.colno})"
        return BrokenRow(file=name, line=number, reason=told)
    except _SaidTwice as twice:
        return BrokenRow(file=name, line=number, reason=f"it says {twice} twice")
    except (ValueError, RecursionError):
        return BrokenRow(file=name, line=number, reason="its JSON goes beyond what can be read")
    if not isinstance(values, dict):
        return BrokenRow(file=name, line=number, reason="it is not a JSON object")
    return RawRow(line=number, values=values)


class _SaidTwice(ValueError):
    """A name stands in an object twice; the text is the name, as it can be shown."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _SaidTwice(shown(_first_twice(name for name, _ in pairs)))
    return values


def _first_twice(names: Iterable[str]) -> str | None:
    """Return the first name that was there before; None: each is there once."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _csv_rows(file: Path) -> Iterator[RawRow | BrokenRow]:
    csv.field_size_limit(_LONGEST_CELL)
    # Bytes that are no UTF-8 become surrogates, by which their row is told below.
    with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
        reader = csv.reader(lines, strict=True)
        names: list[str] | None = None
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as problem:
                yield BrokenRow(file=file.name, line=reader.line_num, reason=f"{problem}")
                continue
            if names is None:
                names = _headings(file, cells)
            elif any(cells):
                yield _csv_row(file.name, reader.line_num, names, cells)


def _headings(file: Path, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    if (twice := _first_twice(filter(None, names))) is not None:
        raise UsageProblem(f"{file} has the heading {shown(twice)} twice.")
    return names


def _csv_row(name: str, line: int, names: list[str], cells: list[str]) -> RawRow | BrokenRow:
    if len(cells) != len(names):
        told = f"it has {_counted(len(cells), 'cell')} under {_counted(len(names), 'heading')}"
        return BrokenRow(file=name, line=line, reason=told)
    if any("\ud800" <= c <= "\udfff" for cell in cells for c in cell):
        return BrokenRow(file=name, line=line, reason="it is not UTF-8 text")
    values = {head: _csv_value(head, cell) for head, cell in zip(names, cells, strict=True)}
    return RawRow(line=line, values={head: v for head, v in values.items() if v is not None})


def _csv_value(head: str, cell: str) -> Any:
    """Return a cell: messages and tools as JSON writes them, anything else as it stands."""
    if head in ("messages", "tools") and not cell.strip():
        return None
    if head in ("messages", "tools", "prompt", "chosen", "rejected") and cell.startswith("["):
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            return cell
    return cell


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _parquet_rows(file: Path) -> Iterator[RawRow | BrokenRow]:
    for number, row in enumerate(parquet_rows(file), 1):
        values = {name: _written(name, value) for name, value in row.items()}
        yield RawRow(line=number, values={name: v for name, v in values.items() if v is not None})


def _written(head: str, value: Any) -> Any:
    """Return a value; lists that were kept as a text are read as in a CSV file."""
    return _csv_value(head, value) if isinstance(value, str) else value


_READERS = {".jsonl": _json_rows, ".csv": _csv_rows, ".parquet": _parquet_rows}
