"""Links and code within a run of text. Pure and linear."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIKILINK = re.compile(r"(!?)\[\[([^\[\]\n]{1,2000})\]\]")
_FILE_LINK = re.compile(
    r"(!?)\[([^\[\]\n]{0,1000})\]\((?:<([^<>\n]{1,2000})>|([^\s()<>]{1,2000}))\)"
)
_RUN = re.compile(r"`+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#")
MARKER = re.compile(r"\[\^([^\]\[\s^]{1,100})\]")
"""A footnote marker; group 1 is its label."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """`[[Name#anchor|text]]`, or `![[Name]]`, which shows the page in place."""

    target: str
    """The name as written, without anchor; empty for a link within the article."""
    anchor: str
    """Heading or anchor behind `#`, as written; empty: none."""
    text: str
    """What is shown."""
    embed: bool
    """Whether it begins with `!`."""
    start: int
    """Offset of its first character."""
    stop: int
    """Offset behind its last character."""
    line: int = 0
    """1-based line; 0: unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Marker:
    """`[^label]` in text: a reference to a footnote."""

    label: str
    """As written."""
    start: int
    """Offset of its first character."""
    stop: int
    """Offset behind its last character."""
    line: int
    """1-based line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileLink:
    """`[text](path)` to a file; addresses with a scheme do not count."""

    path: str
    """As written, before `#`."""
    anchor: str
    """Behind `#`, as written; empty: none."""
    text: str
    """What is shown."""
    embed: bool
    """Whether it begins with `!`."""
    start: int
    """Offset of its first character."""
    stop: int
    """Offset behind its last character."""


def code_spans(text: str, start: int, stop: int) -> list[tuple[int, int]]:
    """Return the code between backticks in a paragraph, in order, as offsets.

    A run of backticks closes at the next run of the same length. Each run is looked at once.
    """
    if text.find("`", start, stop) < 0:
        return []
    runs = [_unescaped(text, start, match) for match in _RUN.finditer(text, start, stop)]
    partner = _next_equal([end - begin for begin, end in runs])
    spans: list[tuple[int, int]] = []
    index = 0
    while index < len(runs):
        other = partner[index]
        if other is None or runs[index][0] == runs[index][1]:
            index += 1
        else:
            spans.append((runs[index][0], runs[other][1]))
            index = other + 1
    return spans


def _unescaped(text: str, start: int, match: re.Match[str]) -> tuple[int, int]:
    """Return a run of backticks without its first one when a backslash stands before it."""
    begin, end = match.span()
    escaped = begin > start and text[begin - 1] == "\\" and text[max(start, begin - 2)] != "\\"
    return (begin + 1 if escaped else begin, end)


def _next_equal(lengths: list[int]) -> list[int | None]:
    """Return for each position the next one with the same value."""
    seen: dict[int, int] = {}
    answer: list[int | None] = [None] * len(lengths)
    for index in range(len(lengths) - 1, -1, -1):
        answer[index] = seen.get(lengths[index])
        seen[lengths[index]] = index
    return answer


def outside(
    matches: Iterator[re.Match[str]], spans: list[tuple[int, int]]
) -> Iterator[re.Match[str]]:
    """Yield the matches that begin in none of some spans; both are in order."""
    index = 0
    for match in matches:
        while index < len(spans) and spans[index][1] <= match.start():
            index += 1
        if index == len(spans) or match.start() < spans[index][0]:
            yield match


def wikilinks(text: str, start: int, stop: int) -> Iterator[Link]:
    """Yield the wikilinks of a paragraph, in order; none of those in code."""
    if text.find("[[", start, stop) < 0:
        return
    for match in outside(_WIKILINK.finditer(text, start, stop), code_spans(text, start, stop)):
        link = _link(match)
        if link is not None:
            yield link


def targets(text: str) -> Iterator[str]:
    """Yield the targets of all wikilinks of a text; of those in code, too."""
    if "[[" not in text:
        return
    for match in _WIKILINK.finditer(text):
        link = _link(match)
        if link is not None and link.target:
            yield link.target


def _link(match: re.Match[str]) -> Link | None:
    # In a table the bar is escaped: [[Name\|text]].
    inner, bar, shown = match[2].replace("\\|", "|").partition("|")
    target, _, anchor = inner.partition("#")
    if not inner.strip():
        return None
    return Link(
        target=target.strip().removesuffix(".md"),
        anchor=anchor.strip(),
        text=(shown if bar else inner).strip(),
        embed=bool(match[1]),
        start=match.start(),
        stop=match.end(),
    )


def file_links(text: str, start: int, stop: int) -> Iterator[FileLink]:
    """Yield the links of a paragraph that name files, in order; none of those in code."""
    if text.find("](", start, stop) < 0:
        return
    for match in outside(_FILE_LINK.finditer(text, start, stop), code_spans(text, start, stop)):
        address = match[3] or match[4]
        if _SCHEME.match(address):
            continue
        path, _, anchor = address.partition("#")
        yield FileLink(
            path=path,
            anchor=anchor,
            text=match[2],
            embed=bool(match[1]),
            start=match.start(),
            stop=match.end(),
        )


def markers(text: str, start: int, stop: int) -> Iterator[re.Match[str]]:
    """Yield the footnote markers of a paragraph, in order; none of those in code."""
    if text.find("[^", start, stop) < 0:
        return
    yield from outside(MARKER.finditer(text, start, stop), code_spans(text, start, stop))
