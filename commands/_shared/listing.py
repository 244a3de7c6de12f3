"""A table for names that are long: one line a row where it fits, else the name above its row.

Without a width, for a file or a pipe, every row is one line, whole. Pure text in, lines out.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "
_LEAST_NAME = 12  # columns for names that have to share their lines


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column."""

    heading: str
    """Stands above it."""
    right: bool = False
    """Numbers: aligned at their end."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row."""

    cells: tuple[str, ...]
    """What stands in each column; the first is the name. Nothing in it moves the cursor."""
    below: str = ""
    """A remark, shown on lines of its own."""


def lay_out(columns: Sequence[Column], rows: Sequence[Row], *, width: int | None) -> list[str]:
    """Return the lines of a table, the headings first.

    Args:
        columns: the columns; the last is never padded.
        rows: the rows; `below` is left out where there is no width.
        width: columns of the terminal; None: as wide as it gets.
    """
    headings = tuple(column.heading for column in columns)
    widths = [
        max(map(columns_of, cells))
        for cells in zip(headings, *(row.cells for row in rows), strict=True)
    ]
    if width is not None:
        rest = sum(widths[1:]) + len(_GAP) * (len(widths) - 1)
        widths[0] = max(min(widths[0], width - rest), min(widths[0], _LEAST_NAME))
    lines = _row_lines(headings, columns, widths)
    for row in rows:
        lines += _row_lines(row.cells, columns, widths)
        if width is not None and row.below:
            lines += textwrap.wrap(
                row.below, max(width, 24), initial_indent=_GAP, subsequent_indent=_GAP
            )
    return lines


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def _row_lines(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    """Return a row as one line, or as two where its name is too long."""
    padded = [
        _pad(cell, width, right=column.right)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    if columns_of(cells[0]) <= widths[0]:
        return [_GAP.join(padded).rstrip()]
    padded[0] = " " * widths[0]
    return [cells[0], _GAP.join(padded).rstrip()]


def _pad(cell: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - columns_of(cell))
    return blanks + cell if right else cell + blanks
