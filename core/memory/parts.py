"""The parts of an article, as offsets in its text. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, get_args

from core.memory.anchors import slug
from core.memory.names import name_key
from core.memory.stages.types import EntityKind

if TYPE_CHECKING:
    from core.memory.links import Link, Marker

SEE_ALSO, NOTES, REFERENCES = "See also", "Notes", "References"
"""Headings with a meaning."""
APPARATUS = frozenset(name_key(heading) for heading in (SEE_ALSO, REFERENCES))
"""Keys of the headings below which there is no prose."""


@dataclass(frozen=True, kw_only=True)
class Infobox:
    """The fenced `info` block at the top."""

    fields: tuple[tuple[str, str], ...]
    """Key and value of each line, in order; lines of another form are left out."""
    start: int
    """Offset of its opening fence."""
    stop: int
    """Offset of the line behind its closing fence."""

    def get(self, key: str) -> str:
        """Return the value of the last line with this key, or an empty string."""
        wanted = key.casefold()
        return next((v for k, v in reversed(self.fields) if k.casefold() == wanted), "")

    @property
    def type(self) -> str:
        """A short noun phrase; may be empty."""
        return self.get("type")

    @property
    def kind(self) -> EntityKind:
        """What sort of thing the article is about."""
        found = self.get("kind").strip().casefold()
        return next((kind for kind in get_args(EntityKind) if kind == found), "thing")


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and what stands below it."""

    heading: str
    """As a reader sees it: without `#`, links by their text."""
    level: int
    """1 to 6."""
    anchor: str
    """Unique in the article, never empty."""
    start: int
    """Line of the heading, 1-based."""
    end: int
    """Last line, 1-based, inclusive; subsections belong to it."""
    offset: int
    """Offset of the heading's line."""
    content: int
    """Offset of the line after the heading."""
    own_stop: int
    """Offset where its own text ends: at the first subsection, or at `stop`."""
    stop: int
    """Offset behind its last line."""
    source: str = field(repr=False, compare=False)
    """The whole article."""

    @property
    def body(self) -> str:
        """What stands below the heading, subsections included."""
        return self.source[self.content : self.stop]

    @property
    def own(self) -> str:
        """What stands below the heading, up to the first subsection."""
        return self.source[self.content : self.own_stop]

    @property
    def text(self) -> str:
        """The heading's line and the body."""
        return self.source[self.offset : self.stop]


@dataclass(frozen=True, kw_only=True, slots=True)
class Footnote:
    """`[^label]: text`."""

    label: str
    """As written."""
    text: str
    """Whitespace collapsed, continuation lines included."""
    line: int
    """1-based."""
    start: int
    """Offset of its first line."""
    stop: int
    """Offset behind its last line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """A sentence of the lead or of a section."""

    text: str
    """Without footnote markers, whitespace collapsed."""
    labels: tuple[str, ...]
    """Labels of its footnote markers, in order."""
    start: int
    """Offset of its first character in the file."""
    end: int
    """Offset behind its last one: the stop, quotes after it, and footnote markers."""
    line: int
    """1-based line of its first character."""
    anchor: str
    """Anchor of its section; empty: the lead."""


@dataclass(frozen=True, kw_only=True)
class Article:
    """A text and where its parts stand."""

    source: str = field(repr=False)
    """The text, byte for byte."""
    title: str
    """Of the first heading, if it has level 1; else empty."""
    series: str
    """What the banner says that the article is part of; empty: no banner."""
    infobox: Infobox | None
    """The first `info` block before the first section."""
    lead_spans: tuple[tuple[int, int], ...]
    """Offsets of the lead's paragraphs; blank lines are outside."""
    head_stop: int
    """Offset behind front matter, title, banner and infobox: where a lead can begin."""
    preamble_stop: int
    """Offset of the first section, or the end of the text."""
    sections: tuple[Section, ...]
    """In order; subsections stand after the section that they belong to."""
    footnotes: tuple[Footnote, ...]
    """Definitions, in order."""
    links: tuple[Link, ...]
    """Wikilinks, in order: headings, banner and footnotes included, infobox and code excluded."""
    markers: tuple[Marker, ...]
    """References to footnotes, in order, code excluded."""
    aliases: tuple[str, ...]
    """Of infobox and front matter, without duplicates."""
    closed: bool
    """Whether all code and comments end; if not, what is added at the end is part of them."""

    @cached_property
    def lead(self) -> str:
        """The paragraphs before the first section, header excluded."""
        return "\n\n".join(self.source[start:stop] for start, stop in self.lead_spans)

    def section(self, anchor: str) -> Section | None:
        """Return the section with this anchor, or with this heading (`[[Name#Heading]]`)."""
        wanted = slug(anchor.rsplit("#", 1)[-1])
        exact = next((s for s in self.sections if s.anchor == anchor), None)
        return exact or next((s for s in self.sections if s.anchor == wanted), None)

    def footnote(self, label: str) -> Footnote | None:
        """Return the first definition of a label; case is ignored, as Markdown does."""
        return self._footnotes.get(label.casefold())

    @cached_property
    def _footnotes(self) -> dict[str, Footnote]:
        return {note.label.casefold(): note for note in reversed(self.footnotes)}
