"""The skeleton of an article: which lines hold its title, banner, infobox, lead and sections. Pure.

As the reference's `structure` has it: only sections of level 2, subsections within them.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from core.memory import lines
from core.memory.article import NOTES, REFERENCES, SEE_ALSO
from core.memory.names import name_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.memory.article import Article, Section

PartKind = Literal["h1", "series", "infobox", "lead", "section", "see-also", "notes", "references"]
_SECTION_LEVEL = 2
_KINDS: dict[str, PartKind] = {
    name_key(SEE_ALSO): "see-also",
    name_key(NOTES): "notes",
    name_key(REFERENCES): "references",
}


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of an article."""

    kind: PartKind
    """What it is."""
    title: str | None = None
    """Text of its heading; None: it has none."""
    depth: int | None = None
    """Level of its heading; None: it has none."""
    start: int
    """First line, 1-based."""
    end: int
    """Last line, 1-based, inclusive."""


def structure(article: Article) -> tuple[Part, ...]:
    """Return the parts of an article in the order of their lines."""
    return tuple(sorted(_parts(article), key=lambda part: part.start))


def _parts(article: Article) -> Iterator[Part]:
    starts = _line_starts(article.source)

    def line(offset: int) -> int:
        return bisect_right(starts, offset)

    yield from _head(article)
    if box := article.infobox:
        yield Part(kind="infobox", start=line(box.start), end=line(max(box.stop - 1, box.start)))
    if spans := article.lead_spans:
        yield Part(kind="lead", start=line(spans[0][0]), end=line(max(spans[-1][1] - 1, 0)))
    for section in article.sections:
        if section.level == _SECTION_LEVEL:
            yield _section(section)


def _head(article: Article) -> Iterator[Part]:
    """Yield title and banner, which stand above the first section."""
    titled = bannered = False
    for line in lines.scan(article.source):
        if line.start >= article.preamble_stop:
            return
        if line.kind == "heading" and line.level == 1 and not titled:
            titled = True
            number = line.number
            yield Part(kind="h1", title=article.title, depth=1, start=number, end=number)
        text = article.source[line.start : line.stop]
        if article.series and not bannered and text.lstrip().startswith("*Part of a series on [["):
            bannered = True
            yield Part(kind="series", start=line.number, end=line.number)


def _section(section: Section) -> Part:
    kind = _KINDS.get(name_key(section.heading), "section")
    return Part(
        kind=kind,
        title=section.heading,
        depth=section.level,
        start=section.start,
        end=section.end,
    )


def _line_starts(text: str) -> list[int]:
    starts, at = [0], text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts
