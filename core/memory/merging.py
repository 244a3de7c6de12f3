"""Three-way merge of an article by sentences and lines; git finds what differs.

git's own merge works on lines, and a paragraph is one line: two sentences that were changed in the
same paragraph would always be a conflict, and so would neighbouring footnotes. Here changes may
touch, but not overlap.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.memory.git import Git

_LARGEST = 4 * 2**20
# The space before a sentence belongs to it, or two sentences in a row would share one.
_BETWEEN = re.compile(r"(\n)|(?<=[.!?\])])(?=[ \t])|(?<=[。！？])")
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class _Hunk:
    """Pieces of the base that are replaced."""

    start: int
    """First one, 0-based."""
    stop: int
    """The one behind the last; equal to `start` for an insertion."""
    pieces: tuple[str, ...]
    """What stands there instead."""


def merge(git: Git, *, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return a text with the changes of both sides; None: they overlap.

    Args:
        git: does the comparison.
        base: what both sides began with.
        ours: one side.
        theirs: the other side.
    """
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    if max(map(len, (base, ours, theirs))) > _LARGEST:
        return None
    pieces = [_pieces(data) for data in (base, ours, theirs)]
    merged = _merged(
        pieces[0], _hunks(git, pieces[0], pieces[1]), _hunks(git, pieces[0], pieces[2])
    )
    return None if merged is None else "".join(merged).encode("utf-8", "surrogateescape")


def _pieces(data: bytes) -> list[str]:
    """Return sentences and line endings as pieces; together they are the text."""
    return [piece for piece in _BETWEEN.split(data.decode("utf-8", "surrogateescape")) if piece]


def _hunks(git: Git, base: Sequence[str], other: Sequence[str]) -> list[_Hunk]:
    with tempfile.TemporaryDirectory(prefix="mlxbun-merge-") as folder:
        files = [Path(folder) / name for name in ("base", "other")]
        for file, pieces in zip(files, (base, other), strict=True):
            file.write_bytes(b"".join(map(_line, pieces)))
        shown = git.call(
            "diff", "--no-index", "-U0", "--text", "--no-ext-diff", "--no-textconv", "--no-color",
            "--no-indent-heuristic", "--", *map(str, files), accept=(0, 1),
        )  # fmt: skip
    return [_hunk(match, other) for match in _HUNK.finditer(shown.out)]


def _line(piece: str) -> bytes:
    raw = piece.encode("utf-8", "surrogateescape")
    return raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n") + b"\n"


def _hunk(match: re.Match[bytes], other: Sequence[str]) -> _Hunk:
    start, count = int(match[1]), int(match[2] or 1)
    first, new = int(match[3]), int(match[4] or 1)
    # git names the line before an empty range.
    start -= 1 if count else 0
    first -= 1 if new else 0
    return _Hunk(start=start, stop=start + count, pieces=tuple(other[first : first + new]))


def _merged(
    base: Sequence[str], ours: Sequence[_Hunk], theirs: Sequence[_Hunk]
) -> list[str] | None:
    hunks = sorted({*ours, *theirs}, key=lambda hunk: (hunk.start, hunk.stop))
    merged: list[str] = []
    at = 0
    for index, hunk in enumerate(hunks):
        before = hunks[index - 1] if index else None
        if hunk.start < at or (before and _is_same_place(before, hunk)):
            return None
        merged += [*base[at : hunk.start], *hunk.pieces]
        at = hunk.stop
    return [*merged, *base[at:]]


def _is_same_place(one: _Hunk, other: _Hunk) -> bool:
    """Return whether both bring new words to the same gap, so that their order is unknown."""
    return one.stop == other.start and bool(one.pieces) and bool(other.pieces)
