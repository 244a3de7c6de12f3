"""Prose of an article: its paragraphs and sentences. Pure and linear."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from core.memory import lines, links
from core.memory import sentences as splitting
from core.memory.names import name_key
from core.memory.parts import APPARATUS, Article, Sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.memory.lines import Line

_OPENING = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?")


def sentences(article: Article) -> tuple[Sentence, ...]:
    """Return the sentences of lead and sections, in order.

    Headings, infobox, banner, code, comments and footnote definitions have none, nor have the
    sections See also and References (with their subsections). A list item and a row of a table
    begin a new sentence.
    """
    return tuple(_sentences(article))


def _sentences(article: Article) -> Iterator[Sentence]:
    text = article.source
    for block in blocks(article):
        at, line = block.start, block.line
        whole = [(block.start, block.stop)]
        for first, last in whole if block.row else splitting.spans(text, block.start, block.stop):
            line += text.count("\n", at, first)
            at = first
            sentence = _sentence(text, first, last, line, block.anchor)
            if sentence is not None:
                yield sentence


def _sentence(text: str, start: int, stop: int, line: int, anchor: str) -> Sentence | None:
    piece = text[start:stop]
    plain = splitting.plain(piece)
    if not any(char.isalnum() for char in plain):
        return None
    labels = tuple(match[1] for match in links.MARKER.finditer(piece))
    return Sentence(text=plain, labels=labels, start=start, end=stop, line=line, anchor=anchor)


class Block(NamedTuple):
    """A paragraph, a list item or a row of a table."""

    start: int
    """Offset of its text."""
    stop: int
    """Offset behind it, without the line ending."""
    line: int
    """1-based line of its first character."""
    anchor: str
    """Anchor of its section; empty: the lead."""
    row: bool
    """Whether it is a row of a table, which is one sentence."""


def blocks(article: Article) -> Iterator[Block]:
    """Yield the paragraphs that hold prose, in order."""
    block: Block | None = None
    for line, anchor in _prose(article):
        if line.kind in ("text", "quote") and block is not None and not block.row:
            block = block._replace(stop=line.stop)
            continue
        if block is not None:
            yield block
            block = None
        if line.kind in ("text", "quote", "list", "table"):
            start = _text_start(article.source, line)
            block = Block(start, line.stop, line.number, anchor, line.kind == "table")
    if block is not None:
        yield block


def _prose(article: Article) -> Iterator[tuple[Line, str]]:
    """Yield the lines outside of apparatus and banner, with the anchor of their section."""
    sections = iter(article.sections)
    upcoming = next(sections, None)
    anchor, skipped_to = "", 0
    for line in lines.scan(article.source):
        if upcoming is not None and line.start >= upcoming.offset:
            anchor = upcoming.anchor
            if name_key(upcoming.heading) in APPARATUS:
                skipped_to = max(skipped_to, upcoming.stop)
            upcoming = next(sections, None)
        is_banner = line.stop <= article.head_stop and line.kind == "text"
        if line.start >= skipped_to and not is_banner:
            yield line, anchor


def _text_start(text: str, line: Line) -> int:
    """Return where a line's text begins: behind bullets, quote marks and check boxes."""
    if line.kind not in ("list", "quote"):
        return line.start
    match = _OPENING.match(text, line.start, line.stop)
    return match.end() if match else line.start
