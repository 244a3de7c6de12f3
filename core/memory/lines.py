r"""Lines of a Markdown text and what each of them is. Pure, linear, tolerant of any text.

A line ends at `\n`; a `\r` before it belongs to the line ending. Everything here works on offsets
in the text, so that nothing but what is edited changes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

LineKind = Literal[
    "blank", "text", "heading", "front", "fence", "code", "comment", "note", "more", "list",
    "quote", "table", "rule",
]  # fmt: skip
"""`front`: YAML at the top; `fence`: a line that opens or closes code; `note`: a footnote's first
line; `more`: a later line of a footnote."""
BOM = "\ufeff"
_FRONT_END = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_NOTE = re.compile(r" {0,3}\[\^([^\]\[\s^]{1,100})\]:")
_LIST = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_INDENTED = re.compile(r" {0,3}\t| {4}")
_CONTINUED = re.compile(r"[ \t]*\t| {2}")


class Line(NamedTuple):
    """One line."""

    kind: LineKind
    start: int
    """Offset of its first character (after a BOM)."""
    stop: int
    """Offset behind its last character, without the line ending."""
    end: int
    """Offset of the next line."""
    number: int
    """1-based."""
    level: int
    """Of a heading: 1 to 6; else 0."""


class Scanner:
    """Decides what a line is from the lines before it."""

    def __init__(self) -> None:
        self.fence = ""
        """What opened the code that the line may be in: a run of backticks or tildes."""
        self.fence_quoted = False
        self.comment = False
        self.before: LineKind = "blank"
        self.indented = False
        """Whether the line before is part of indented code."""
        self.holds = False
        """Whether indented lines belong to the list item or footnote above."""
        self.in_note = False
        """Whether the block above is a footnote, blank lines aside."""

    @property
    def is_open(self) -> bool:
        """Whether code or a comment has not ended yet."""
        return bool(self.fence) or self.comment

    def kind(self, line: str) -> LineKind:
        """Return what the next line is."""
        if self.fence or self.comment or self.in_note or not (line[:1].isalpha() or not line):
            kind = self._in_block(line) or self._fresh(line)
        elif not line:
            kind = "blank"
        else:  # most lines; a letter begins nothing else
            kind = "text"
            self.holds = self.indented = False
        self.before = kind
        return kind

    def _in_block(self, line: str) -> LineKind | None:
        """Return the kind of a line inside of a fence or comment; None: it is in neither."""
        if self.comment:
            self.comment = "-->" not in line
            return "comment"
        if not self.fence:
            return None
        if self.fence_quoted and not line.lstrip().startswith(">"):
            self.fence = ""
            return None
        match = _FENCE.match(line)
        if match and match[1].startswith(self.fence) and not line[match.end() :].strip():
            self.fence = ""
            return "fence"
        return "code"

    def _fresh(self, line: str) -> LineKind:
        if not line.strip():
            return "blank"
        if self._opens_fence(line):
            return "fence"
        if line.startswith("<!--"):
            self.comment = "-->" not in line[4:]
            return "comment"
        if self._continues_note(line):
            return "more"
        if self._is_indented_code(line):
            return "code"
        return self._block(line)

    def _opens_fence(self, line: str) -> bool:
        match = _FENCE.match(line)
        if match is None or (match[1][0] == "`" and "`" in line[match.end() :]):
            return False
        self.fence = match[1]
        self.fence_quoted = ">" in line[: match.start(1)]
        return True

    def _continues_note(self, line: str) -> bool:
        if not self.in_note:
            return False
        if _CONTINUED.match(line):
            return True
        lazy = self.before in ("note", "more") and _plain(line)
        self.in_note = lazy
        return lazy

    def _is_indented_code(self, line: str) -> bool:
        deep = _INDENTED.match(line) is not None
        after = self.before in ("blank", "heading", "fence", "front") or self.indented
        self.indented = deep and after and not self.holds
        return self.indented

    def _block(self, line: str) -> LineKind:
        kind = _kind_alone(line)
        if not line[0].isspace():
            self.holds = kind in ("list", "note")
        self.in_note = kind == "note"
        return kind


def _kind_alone(line: str) -> LineKind:
    """Return the kind of a line that no block above claims."""
    first = line.lstrip()[0]
    if first in "*-_" and _is_rule(line, first):
        return "rule"
    kinds: tuple[tuple[str, LineKind, re.Pattern[str]], ...] = (
        ("#", "heading", _HEADING),
        ("[", "note", _NOTE),
        ("*-+0123456789", "list", _LIST),
    )
    for chars, kind, pattern in kinds:
        if first in chars and pattern.match(line):
            return kind
    return {">": "quote", "|": "table"}.get(first, "text")  # type: ignore[return-value]


def _is_rule(line: str, char: str) -> bool:
    marks = line.replace(" ", "").replace("\t", "")
    return len(marks) >= 3 and marks == char * len(marks)


def _plain(line: str) -> bool:
    return _kind_alone(line) == "text"


def front_matter(text: str) -> tuple[int, int] | None:
    """Return where the YAML between the `---` at the top stands (offsets); None: there is none."""
    start = 1 if text.startswith(BOM) else 0
    opening = text.find("\n", start)
    if opening < 0 or text[start:opening].rstrip() != "---" or not text.startswith("---", start):
        return None
    closing = _FRONT_END.search(text, opening + 1)
    return (opening + 1, closing.start()) if closing else None


def scan(text: str, scanner: Scanner | None = None) -> Iterator[Line]:
    """Yield the lines of a text, in order; after a last line ending there is no empty line.

    Args:
        text: any text.
        scanner: a new one, for callers that want to know its state at the end.
    """
    scanner = scanner or Scanner()
    front = front_matter(text)
    front_stop = front[1] if front else -1
    position = 1 if text.startswith(BOM) else 0
    number = 0
    while position < len(text):
        number += 1
        found = text.find("\n", position)
        end = len(text) if found < 0 else found + 1
        stop = end if found < 0 else found
        if found > position and text[found - 1] == "\r":
            stop = found - 1
        if position <= front_stop:
            kind: LineKind = "front"
            scanner.before = "front"
        else:
            kind = scanner.kind(text[position:stop])
        yield Line(kind, position, stop, end, number, _level(text, position, stop, kind))
        position = end


def _level(text: str, start: int, stop: int, kind: LineKind) -> int:
    if kind != "heading":
        return 0
    match = _HEADING.match(text[start:stop])
    return len(match[1]) if match else 0


def newline(text: str) -> str:
    """Return the line ending of a text: that of its first line."""
    found = text.find("\n")
    return "\r\n" if found > 0 and text[found - 1] == "\r" else "\n"
