r"""An article as the index keeps it: its words line by line, and where sections begin. Pure.

A text of words is ` one\n two\n three\n`. To FTS5 both separators are alike; here they make every
word one that `str.count` and `str.find` find whole (` one\n`) or by its beginning (` on`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from core.memory.article import parse
from core.memory.search.tokens import tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from core.memory.search.query import Term

LONGEST_EXCERPT = 240
"""Characters of an excerpt."""
_MOST_PLACES = 200  # of a term that are looked at for excerpts
_LONGEST_LINE = 2000  # characters in which a term is looked for word by word
_BEFORE = LONGEST_EXCERPT // 3  # characters before a term


@dataclass(frozen=True, kw_only=True)
class Document:
    """What the index keeps of an article."""

    title: str
    """Words of the file's name and of the first heading."""
    aliases: str
    """Words of its other names."""
    body: str
    """Words of the whole text."""
    starts: bytes
    """Where each line begins in `body`: unsigned 32-bit integers."""
    sections: tuple[tuple[int, str], ...]
    """Line (1-based) and anchor of each heading below the lead, ascending."""
    text: str
    """The text itself."""


def make_document(name: str, text: str) -> Document:
    """Return what the index keeps of an article.

    Args:
        name: of the file, without its suffix.
        text: the whole article.
    """
    article = parse(text)
    lines = [stream(line) for line in text.split("\n")]
    starts = array("I", accumulate(map(len, lines[:-1]), initial=0))
    heading = article.title if tokens(article.title) != tokens(name) else ""
    return Document(
        title=stream(name) + stream(heading),
        aliases="".join(stream(alias) for alias in article.aliases),
        body="".join(lines),
        starts=starts.tobytes(),
        sections=tuple((section.start, section.anchor) for section in article.sections),
        text=text,
    )


def stream(text: str) -> str:
    """Return the words of a text, each with its separators."""
    return "".join(f" {word}\n" for word in tokens(text))


def occurrences(body: str, terms: Iterable[Term]) -> int:
    """Return how often terms stand in a text of words."""
    return sum(body.count(term.pattern) for term in terms)


def matching_lines(
    body: str, starts: bytes, terms: Sequence[Term], *, most: int
) -> tuple[int, ...]:
    """Return the lines (1-based, ascending) that hold most of the terms, earlier ones first.

    Args:
        body: words of the text.
        starts: where its lines begin, as in `Document`.
        terms: what to look for.
        most: lines to return.
    """
    first = array("I")
    first.frombytes(starts)
    held: dict[int, int] = {}
    for term in terms:
        for line in {bisect_right(first, place) for place in _places(body, term.pattern)}:
            held[line] = held.get(line, 0) + 1
    best = sorted(held, key=lambda line: (-held[line], line))[:most]
    return tuple(sorted(best))


def _places(body: str, pattern: str) -> Iterable[int]:
    place = -1
    for _ in range(_MOST_PLACES):
        place = body.find(pattern, place + 1)
        if place < 0:
            return
        yield place


def anchor_at(sections: Sequence[tuple[int, str]], line: int) -> str | None:
    """Return the anchor of the section that a line belongs to; None: the lead."""
    before = bisect_right([start for start, _ in sections], line)
    return sections[before - 1][1] if before else None


def excerpt(line: str, terms: Sequence[Term]) -> str:
    """Return a line, or the part of it in which the first term stands."""
    if len(line) > _LONGEST_LINE:
        places = (line.lower().find(term.words[0]) for term in terms)
        at = max(next((place for place in places if place >= 0), 0) - _BEFORE, 0)
        line = line[at : at + _LONGEST_LINE]
    shown = " ".join(line.split())
    return shown if len(shown) <= LONGEST_EXCERPT else _around(shown, terms)


def _around(line: str, terms: Sequence[Term]) -> str:
    """Return a part of a long line: some words, a term, and what stands behind it."""
    pieces = line.split()
    wanted = [term.words[0] for term in terms]
    start = next((i for i, piece in enumerate(pieces) if _begins(piece, wanted)), 0)
    room = _BEFORE
    while start > 0 and room > len(pieces[start - 1]):
        start -= 1
        room -= len(pieces[start]) + 1
    shown = " ".join(pieces[start : start + LONGEST_EXCERPT])
    cut = shown[: LONGEST_EXCERPT - 2].rstrip()
    return f"{'…' if start else ''}{cut}{'…' if len(cut) < len(shown) else ''}"


def _begins(piece: str, wanted: Sequence[str]) -> bool:
    found = stream(piece)
    return any(f" {word}" in found for word in wanted)
