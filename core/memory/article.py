"""The format of an article: title, series, infobox, lead, sections, links, footnotes. Pure, linear.

    # Title
    *Part of a series on [[Series]].*
    ```info
    type: programming language
    kind: thing
    aliases: other name, third name
    ```
    The lead.[^1]
    ## Section
    ## See also
    ## Notes
    ## References
    [^1]: …

Any text is an article: what is missing is empty. Nothing is normalized, every part is an offset in
the text (`core.memory.edits` changes single bytes by them), so that `render(parse(t)) == t`. Notes
from Obsidian may begin with YAML front matter, of which the aliases are read.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from core.memory import lines, links
from core.memory.anchors import Anchors, shown
from core.memory.names import name_key
from core.memory.parts import (
    NOTES,
    REFERENCES,
    SEE_ALSO,
    Article,
    Footnote,
    Infobox,
    Section,
    Sentence,
)
from core.memory.prose import sentences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.memory.lines import Line
    from core.memory.links import Link, Marker

__all__ = [
    "NOTES",
    "REFERENCES",
    "SEE_ALSO",
    "Article",
    "Footnote",
    "Infobox",
    "Section",
    "Sentence",
    "parse",
    "render",
    "sentences",
]

_SERIES = re.compile(r"\*Part of a series on \[\[([^\[\]|#]{1,300})(?:[|#][^\[\]]*)?\]\]\.?\*")
_HEADING_TEXT = re.compile(r" {0,3}#{1,6}[ \t]*(.*)", re.DOTALL)
_NOTE_TEXT = re.compile(r" {0,3}\[\^([^\]\[\s^]{1,100})\]:[ \t]*")
_ALIAS_KEY = re.compile(r"alias(?:es)?[ \t]*:(.*)", re.IGNORECASE)
MOST_ALIASES = 100
"""Aliases read of an article; more are ignored."""


def render(article: Article) -> str:
    """Return the text of an article: the one that was parsed."""
    return article.source


def parse(text: str) -> Article:
    """Return the parts of a text; any text has them."""
    return _Parser(text).article()


class _Parser:
    """One pass over the lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.scanner = lines.Scanner()
        self.title = ""
        self.series = ""
        self.infobox: Infobox | None = None
        self.head_stop = 0
        self.preamble_stop: int | None = None
        self.lead: list[list[int]] = []
        self.sections: list[_Open] = []
        self.path: list[_Open] = []
        self.notes: list[list[int]] = []
        self.links: list[Link] = []
        self.markers: list[Marker] = []
        self.anchors = Anchors()
        self.paragraph: tuple[int, int, int] | None = None
        """Start, stop and first line of the lines that may share inline code."""
        self.box: tuple[int, list[tuple[str, str]]] | None = None
        """Start and fields of an infobox that has not ended yet."""
        self.fenced = False
        self.last = 0

    def article(self) -> Article:
        for line in lines.scan(self.text, self.scanner):
            self._take(line)
            self.last = line.number
        self._end_paragraph()
        self._close(1, len(self.text), self.last)
        stop = len(self.text) if self.preamble_stop is None else self.preamble_stop
        return Article(
            source=self.text,
            title=self.title,
            series=self.series,
            infobox=self.infobox,
            lead_spans=tuple((start, end) for start, end in self.lead),
            head_stop=self.head_stop,
            preamble_stop=stop,
            sections=tuple(section.done(self.text) for section in self.sections),
            footnotes=tuple(self._footnote(note) for note in self.notes),
            links=tuple(self.links),
            markers=tuple(self.markers),
            aliases=_aliases(self.text, self.infobox),
            closed=not self.scanner.is_open,
        )

    def _take(self, line: Line) -> None:
        if line.kind in ("text", "list", "quote", "table", "note", "more"):
            self._inline(line)
        else:
            self._end_paragraph()
        if line.kind == "heading":
            self._heading(line)
        elif line.kind in ("note", "more"):
            self._note(line)
        if self.preamble_stop is None:
            self._preamble(line)

    def _inline(self, line: Line) -> None:
        """Add a line to the paragraph, or begin a new one."""
        if self.paragraph is None or line.kind in ("list", "note", "table"):
            self._end_paragraph()
            label = _NOTE_TEXT.match(self.text, line.start) if line.kind == "note" else None
            self.paragraph = (label.end() if label else line.start, line.stop, line.number)
        else:
            self.paragraph = (self.paragraph[0], line.stop, self.paragraph[2])

    def _end_paragraph(self) -> None:
        if self.paragraph is not None:
            self._add_links(*self.paragraph)
            self.paragraph = None

    def _add_links(self, start: int, stop: int, first: int) -> None:
        """Take the links and markers of a paragraph."""
        number = _Counter(self.text, start, first)
        for link in links.wikilinks(self.text, start, stop):
            self.links.append(replace(link, line=number.at(link.start)))
        number = _Counter(self.text, start, first)
        for match in links.markers(self.text, start, stop):
            begin, end = match.span()
            self.markers.append(
                links.Marker(label=match[1], start=begin, stop=end, line=number.at(begin))
            )

    def _heading(self, line: Line) -> None:
        self._add_links(line.start, line.stop, line.number)
        text = _heading_text(self.text[line.start : line.stop])
        if line.level == 1 and not self.title and not self.sections:
            self.title = shown(text)
            return
        self._close(line.level, line.start, line.number - 1)
        if self.preamble_stop is None:
            self.preamble_stop = line.start
        section = _Open(line, shown(text), self.anchors.of(text))
        self.sections.append(section)
        self.path.append(section)

    def _close(self, level: int, offset: int, number: int) -> None:
        """End the sections that a heading of this level ends, and the own text of all."""
        for section in self.path[-1:]:
            section.own_stop = offset if section.own_stop is None else section.own_stop
        while self.path and self.path[-1].level >= level:
            section = self.path.pop()
            section.stop, section.end = offset, number

    def _note(self, line: Line) -> None:
        if line.kind == "note":
            self.notes.append([line.start, line.end, line.number])
        elif self.notes:
            self.notes[-1][1] = line.end

    def _footnote(self, note: list[int]) -> Footnote:
        start, stop, number = note
        text = self.text[start:stop]
        match = _NOTE_TEXT.match(text)
        label, behind = (match[1], match.end()) if match else ("", 0)
        body = " ".join(text[behind:].split())
        return Footnote(label=label, text=body, line=number, start=start, stop=stop)

    def _preamble(self, line: Line) -> None:
        """Take what stands before the first section."""
        if line.kind in ("fence", "code"):
            self._fenced(line)
            return
        if line.kind in ("front", "heading") or (line.kind == "text" and self._is_banner(line)):
            self._in_head(line)
        elif line.kind in ("text", "list", "quote", "table"):
            self._in_lead(line)

    def _is_banner(self, line: Line) -> bool:
        if self.series:
            return False
        match = _SERIES.fullmatch(self.text[line.start : line.stop].strip())
        if match:
            self.series = match[1].strip()
        return match is not None

    def _fenced(self, line: Line) -> None:
        """Take a line of code: an infobox belongs to the head, other code to the lead."""
        text = self.text[line.start : line.stop]
        if line.kind == "fence":
            self.fenced = not self.fenced
            if self.fenced and self.infobox is None and text.strip(" \t`~").casefold() == "info":
                self.box = (line.start, [])
                return
            if self.box is not None:
                start, fields = self.box
                self.infobox = Infobox(fields=tuple(fields), start=start, stop=line.end)
                self.box = None
                self._in_head(line)
                return
        elif self.box is not None:
            key, colon, value = text.partition(":")
            if colon and key.strip():
                self.box[1].append((key.strip(), value.strip()))
            return
        self._in_lead(line)

    def _in_head(self, line: Line) -> None:
        if not self.lead:
            self.head_stop = line.end

    def _in_lead(self, line: Line) -> None:
        touches = self.lead and not self.text[self.lead[-1][1] : line.start].strip(" \t\r")[1:]
        if touches:
            self.lead[-1][1] = line.stop
        else:
            self.lead.append([line.start, line.stop])


class _Counter:
    """Numbers lines; it reads the text once."""

    def __init__(self, text: str, offset: int, number: int) -> None:
        self.text, self.offset, self.number = text, offset, number

    def at(self, offset: int) -> int:
        self.number += self.text.count("\n", self.offset, offset)
        self.offset = offset
        return self.number


class _Open:
    """A section whose end is not known yet."""

    def __init__(self, line: Line, heading: str, anchor: str) -> None:
        self.line, self.heading, self.anchor, self.level = line, heading, anchor, line.level
        self.own_stop: int | None = None
        self.stop = self.end = 0

    def done(self, text: str) -> Section:
        return Section(
            heading=self.heading,
            level=self.level,
            anchor=self.anchor,
            start=self.line.number,
            end=self.end,
            offset=self.line.start,
            content=self.line.end,
            own_stop=self.stop if self.own_stop is None else self.own_stop,
            stop=self.stop,
            source=text,
        )


def _heading_text(line: str) -> str:
    """Return the text of a heading's line: without `#` before it, and after it."""
    match = _HEADING_TEXT.match(line)
    text = match[1].strip() if match else ""
    bare = text.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else text


def _aliases(text: str, infobox: Infobox | None) -> tuple[str, ...]:
    found = list(_front_aliases(text))
    found += infobox.get("aliases").split(",") if infobox else []
    unique = {name_key(alias): alias.strip() for alias in reversed(found) if alias.strip()}
    return tuple(reversed(unique.values()))[:MOST_ALIASES]


def _front_aliases(text: str) -> Iterator[str]:
    """Yield the aliases of YAML front matter: a list in brackets, in lines, or a single one."""
    front = lines.front_matter(text)
    listed = False
    for line in text[slice(*front)].split("\n") if front else ():
        match = _ALIAS_KEY.match(line)
        if match:
            value = match[1].strip()
            listed = not value
            bare = value.removeprefix("[").removesuffix("]")
            yield from (_unquoted(part) for part in bare.split(","))
        elif listed and line.lstrip().startswith("- "):
            yield _unquoted(line.lstrip()[2:])
        elif line[:1].strip():
            listed = False


def _unquoted(value: str) -> str:
    text = value.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
