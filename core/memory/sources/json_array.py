"""The objects of a JSON array that is too large to be held, one at a time.

The text is split where an object ends, by counting brackets outside of strings; each object is then
parsed by itself. Memory is bounded by the largest object that is wanted, time is linear, and depth
costs nothing. What stands between the objects is not looked at.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from core.memory.sources.lines import parse_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from core.memory.sources.raw import ReadLog

# Everything but brackets, whole strings and empty pairs included, in one step of the machine.
_QUIET = re.compile(rb'(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\[\]|\{\})*+', re.DOTALL)
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_BRACKETS = re.compile(rb"[{\[]++|[}\]]++")
_BOM = b"\xef\xbb\xbf"


class ArraySplitter:
    """Takes the text of a JSON array, and returns its objects as text.

    A text that is one object instead of an array is returned as that.
    """

    def __init__(self, *, most: int) -> None:
        """Begin at the start of a text.

        Args:
            most: bytes of an object at most; larger ones are left out and counted.
        """
        self.oversized = 0
        """Objects left out."""
        self._most = most
        self._depth = 0
        self._base = 1  # depth at which an object is an element
        self._begun = False
        self._foreign = False  # whether the text is neither an array nor an object
        self._string = False
        self._escaped = False
        self._parts: list[bytes] | None = None  # of the element that is open
        self._size = 0
        self._from = 0  # where it begins, or continues, in this piece

    @property
    def complete(self) -> bool:
        """Whether the text so far is one whole value."""
        return self._begun and self._depth == 0 and not self._foreign

    @property
    def held(self) -> int:
        """Bytes that are kept of an object that has not ended."""
        return sum(map(len, self._parts or ()))

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take the next piece of the text, and yield the objects that end in it."""
        if not self._begun:
            data = data.removeprefix(_BOM).lstrip()
            self._begun = bool(data)
            self._base = 0 if data.startswith(b"{") else 1
            self._foreign = not data.startswith((b"{", b"["))
        if not data or self._foreign:
            return
        self._from = 0
        at = self._leave_string(data, 0) if self._string else 0
        while at < len(data):
            at = _end(_QUIET, data, at)
            if data[at : at + 1] == b'"':  # a string that does not end in this piece
                self._string = True
                at = self._leave_string(data, at + 1)
            elif at < len(data):
                end = _end(_BRACKETS, data, at)
                if data[at] in b"{[":
                    self._open(data, at, end)
                else:
                    yield from self._close(data, at, end)
                at = end
        if self._parts is not None:
            self._keep(data[self._from :])

    def _leave_string(self, data: bytes, at: int) -> int:
        """Return where a string ends that is open at `at`, or the end of the piece."""
        at = _end(_IN_STRING, data, at + 1 if self._escaped else at)
        self._escaped = data[at : at + 1] == b"\\"
        self._string = data[at : at + 1] != b'"'
        return at + 1

    def _open(self, data: bytes, at: int, end: int) -> None:
        """Count a run of opening brackets; the first object at the right depth begins in it."""
        if self._parts is None and self._depth <= self._base:
            brace = at + self._base - self._depth
            if brace < end and data[brace] in b"{":
                self._parts, self._size, self._from = [], 0, brace
        self._depth += end - at

    def _close(self, data: bytes, at: int, end: int) -> Iterator[bytes]:
        """Count a run of closing brackets, and yield the object that ends in it."""
        inner = self._depth - self._base  # so many of them close the object
        if self._parts is not None and inner <= end - at:
            self._keep(data[self._from : at + inner])
            yield from self._finished()
        self._depth = max(0, self._depth - (end - at))

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._parts is not None:
            if self._size > self._most:
                self._parts.clear()
            else:
                self._parts.append(piece)

    def _finished(self) -> Iterator[bytes]:
        parts, self._parts = self._parts, None
        if self._size > self._most:
            self.oversized += 1
        elif parts:
            yield b"".join(parts)


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    found = pattern.match(data, at)
    return at if found is None else found.end()


def read_array(pieces: Iterable[bytes], log: ReadLog, *, most: int) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON array.

    Args:
        pieces: its text, UTF-8.
        log: counts objects that cannot be parsed as broken, and larger ones as skipped.
        most: bytes of an object at most.
    """
    splitter = ArraySplitter(most=most)
    for piece in pieces:
        log.check()
        for text in splitter.feed(piece):
            values = parse_object(text)
            if values is None:
                log.broken += 1
            elif values:  # empty ones count as nothing, wherever a piece ends
                yield values
    for _ in range(splitter.oversized):
        log.skip(f"a conversation larger than {most // 2**20} MiB")
    if not splitter.complete:
        log.skip("the rest of a file that is cut short or is not JSON")
