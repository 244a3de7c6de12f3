"""What files of data hold: rows, columns, and whether mlx-lm trains on them. Never guesses.

Rows of JSON lines and CSV are counted up to a size; those of Parquet are not looked into.

Source of the formats: mlx-lm's `tuner/datasets.py` (`create_dataset`): `messages`, `prompt` with
`completion`, or `text` in every row.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.registry.files import open_regular, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from core.upload.gather import LocalFile

_MOST_COUNTED = 2**30  # bytes of all files together that are read to count rows
_MOST_CSV = 2**28
_MOST_LINE = 2**20
_MOST_COLUMNS = 40
_TABLES = (".jsonl", ".csv", ".parquet")

# The Hub's classes for `size_categories`.
_SIZES = (
    (10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"), (10**8, "10M<n<100M"), (10**9, "100M<n<1B"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file of data."""

    name: str
    """Its path in the repository."""
    size: int
    """Bytes."""
    rows: int | None
    """Rows; None: not counted."""
    columns: tuple[str, ...]
    """Names of its columns, as its first row has them; empty: not told."""


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """What a data set holds."""

    files: tuple[DataFile, ...]
    """Files with rows, by name."""

    @property
    def rows(self) -> int | None:
        """All rows, or None where one file's are not known."""
        counts = [file.rows for file in self.files]
        return sum(count for count in counts if count is not None) if None not in counts else None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that every file has, or none where they differ or are not told."""
        kinds = {file.columns for file in self.files}
        return next(iter(kinds)) if len(kinds) == 1 else ()

    @property
    def size_category(self) -> str | None:
        """The Hub's class for its number of rows."""
        if not self.rows:
            return None
        return next((name for bound, name in _SIZES if self.rows < bound), "n>1B")

    @property
    def format(self) -> str | None:
        """What mlx-lm reads its rows as: `chat`, `completions`, `text`; None: as nothing."""
        columns = set(self.columns)
        if "messages" in columns:
            return "chat"
        if {"prompt", "completion"} <= columns:
            return "completions"
        return "text" if "text" in columns else None


def read_data(files: Sequence[LocalFile]) -> DataFacts:
    """Return what files of data hold. What cannot be told is left out; does not raise."""
    tables = [file for file in files if file.name.lower().endswith(_TABLES)]
    budget = _MOST_COUNTED if sum(file.size for file in tables) <= _MOST_COUNTED else 0
    return DataFacts(files=tuple(_read(file, budget=budget) for file in tables))


def _read(file: LocalFile, *, budget: int) -> DataFile:
    rows: int | None = None
    columns: tuple[str, ...] = ()
    name = file.name.lower()
    try:
        if name.endswith(".jsonl"):
            columns = _first_keys(file.path)
            rows = _count_lines(file.path) if file.size <= budget else None
        elif name.endswith(".csv") and file.size <= min(budget, _MOST_CSV):
            rows, columns = _count_csv(file.path)
    except (OSError, ValueError, csv.Error):
        rows = None
    return DataFile(
        name=file.name,
        size=file.size,
        rows=rows,
        columns=tuple(printable(column, 60) for column in columns[:_MOST_COLUMNS]),
    )


def _first_keys(path: Path) -> tuple[str, ...]:
    with open_regular(path) as (file, _):
        line = file.readline(_MOST_LINE)
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return ()
    return tuple(row) if isinstance(row, dict) else ()


def _count_lines(path: Path) -> int:
    """Return how many lines hold something."""
    with open_regular(path) as (file, _):
        return sum(1 for line in file if line.strip())


def _count_csv(path: Path) -> tuple[int, tuple[str, ...]]:
    """Return how many rows follow the one with the headings, and the headings."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        headings = tuple(next(rows, ()))
        return sum(1 for row in rows if row), headings
