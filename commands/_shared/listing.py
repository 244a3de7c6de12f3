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
_LEAST_NAME = 24  # columns; with fewer, every name gets a line of its own


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column."""

    heading: str
    """Stands above it."""
    right: bool = False
    """Numbers: aligned at their end."""
    least: int | None = None
    """Columns of the terminal to which it may be cut; None: it is never cut."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row."""

    cells: tuple[str, ...]
    """What stands in each column; the first is the name. Nothing in it moves the cursor."""
    below: str = ""
    """A remark, shown on lines of its own."""


def lay_out(
    columns: Sequence[Column], rows: Sequence[Row], *, width: int | None, styled: bool = False
) -> list[str]:
    """Return the lines of a table, the headings first.

    Args:
        columns: the columns; the last is never padded.
        rows: the rows; `below` is left out where there is no width.
        width: columns of the terminal; None: as wide as it gets.
        styled: headings and names are bold, remarks faint; only where there is a width.
    """
    headings = Row(cells=tuple(column.heading for column in columns))
    every = [headings, *rows]
    widths = [max(map(columns_of, cells)) for cells in zip(*(r.cells for r in every), strict=True)]
    if width is None:
        return [_line(row.cells, columns, widths) for row in every]
    names = sorted(columns_of(row.cells[0]) for row in rows)
    widths = _fitted(widths, columns, width, usual=names[len(names) // 2] if names else 0)
    lines = [_bold(line, line, styled) for line in _row_lines(headings.cells, columns, widths)]
    for row in rows:
        first, *others = _row_lines(row.cells, columns, widths)
        lines += [_bold(row.cells[0], first, styled), *others, *_remark(row.below, width, styled)]
    return lines


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_columns_of_one, text))


def _fitted(widths: list[int], columns: Sequence[Column], width: int, *, usual: int) -> list[int]:
    """Return the widths with which rows fit into a width; names that are too long get a line.

    Where names as long as the `usual` one do not fit beside the rest, all of them get one.
    """
    gaps = len(_GAP) * (len(widths) - 1)
    if sum(widths) + gaps <= width:
        return widths
    free = width - sum(widths[1:]) - gaps
    if free >= max(_LEAST_NAME, usual):
        return [free, *widths[1:]]
    # The name's own column is empty then: its gap indents the rest.
    excess = sum(widths[1:]) + gaps - width
    fitted = [0]
    for natural, column in zip(widths[1:], columns[1:], strict=True):
        cut = max(min(excess, natural - column.least), 0) if column.least is not None else 0
        excess -= cut
        fitted.append(natural - cut)
    return fitted


def _row_lines(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> list[str]:
    """Return a row as one line, or as two where its name is too long."""
    if columns_of(cells[0]) <= widths[0]:
        return [_line(cells, columns, widths)]
    return [cells[0], _line(("", *cells[1:]), columns, widths)]


def _remark(text: str, width: int, styled: bool) -> list[str]:
    lines = textwrap.wrap(text, max(width, 24), initial_indent=_GAP, subsequent_indent=_GAP)
    return [f"\x1b[2m{line}\x1b[0m" if styled else line for line in lines]


def _bold(name: str, line: str, styled: bool) -> str:
    """Return a line whose beginning, the name, is bold."""
    return f"\x1b[1m{name}\x1b[0m{line[len(name) :]}" if styled else line


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    padded = [
        _pad(_cut(cell, width), width, right=column.right)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    return _GAP.join(padded).rstrip()


def _pad(cell: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - columns_of(cell))
    return blanks + cell if right else cell + blanks


def _cut(cell: str, width: int) -> str:
    if columns_of(cell) <= width:
        return cell
    while columns_of(cell) >= width:
        cell = cell[:-1]
    return cell + "…"


def _columns_of_one(character: str) -> int:
    from unicodedata import combining, east_asian_width

    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
