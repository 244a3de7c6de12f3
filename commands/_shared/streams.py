"""The two streams of a process: what they can show, and what happens when they cannot be written.

A reader that goes away, a full disk and a stream that was closed before the start each end in one
known way. Knows nothing of tables, records or JSON.
"""

from __future__ import annotations

import io
import os
import re
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TextIO

from core.errors import MlxbunError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Halves of characters: what stands for the bytes of a file name that is no text.
_NO_TEXT = re.compile("[\ud800-\udfff]")


class ReaderGone(Exception):
    """Nobody reads our output any more: the end of a pipe was closed."""


class Streams:
    """stdout and stderr.

    Attributes:
        plain: colors, bars and whatever moves the cursor are not wanted on any terminal.
        printed: what was put onto stdout for a program: nothing, one `document`, or `events`.
    """

    def __init__(
        self, *, out: TextIO | None = None, err: TextIO | None = None, plain: bool = False
    ) -> None:
        """Take two streams; by default those that the process has when it writes."""
        self._out = out
        self._err = err
        # Python has None for a stream that was closed before it started (`mlxbun ls >&-`).
        self._nowhere = io.StringIO()
        self.plain = plain
        self.printed: Literal["", "document", "events"] = ""

    @property
    def out(self) -> TextIO:
        """Where data goes."""
        return self._out or sys.stdout or self._nowhere

    @property
    def err(self) -> TextIO:
        """Where everything else goes."""
        return self._err or sys.stderr or self._nowhere

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Streams:
        """Return the streams of the process, as `NO_COLOR` and `TERM` want them."""
        dumb = environ.get("TERM", "").lower() in ("dumb", "unknown")
        return cls(plain=dumb or bool(environ.get("NO_COLOR")))

    def is_styled(self, stream: TextIO) -> bool:
        """Return whether colors and bars may be shown on a stream."""
        return stream.isatty() and not self.plain

    def write(self, text: str) -> None:
        """Put data onto stdout, at once.

        Raises:
            ReaderGone: nobody reads it.
            MlxbunError: it cannot be written.
        """
        _write(self.out, text)

    def write_bytes(self, data: bytes) -> None:
        """Put data onto stdout as it is, at once.

        Raises:
            ReaderGone: nobody reads it.
            MlxbunError: it cannot be written.
        """
        _write(self.out, data)

    def tell(self, text: str) -> None:
        """Put words onto stderr, while somebody is there to hear."""
        with suppress(ReaderGone, MlxbunError):
            _write(self.err, text)


def is_unicode(stream: TextIO) -> bool:
    """Return whether a stream takes every character."""
    # A stream in memory has no encoding: it takes text as it is.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return encoding.lower().replace("-", "").replace("_", "").startswith(("utf8", "utf16", "utf32"))


def whole_characters(text: str) -> str:
    """Return a text in which every character is one."""
    return text if text.isascii() else _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


def _write(stream: TextIO, data: str | bytes) -> None:
    try:
        _put(_writable(data, stream) if isinstance(data, str) else data, stream)
    except OSError as problem:
        _silence(stream)
        if isinstance(problem, BrokenPipeError):
            raise ReaderGone from None
        raise MlxbunError(f"The output cannot be written: {problem.strerror}.") from problem


def _put(data: str | bytes, stream: TextIO) -> None:
    """Write all of it or fail.

    Python's own streams lose the rest of what a reader that goes away has read half of, when they
    are unbuffered (`PYTHONUNBUFFERED`), and fail where a pipe does not block.
    """
    stream.flush()
    try:
        descriptor = stream.fileno() if isinstance(stream, io.TextIOWrapper) else None
    except io.UnsupportedOperation:
        descriptor = None
    if descriptor is None:  # in memory, or drawn above a bar
        stream.write(data if isinstance(data, str) else data.decode("utf-8", "replace"))
        stream.flush()
        return
    rest = memoryview(data.encode(stream.encoding) if isinstance(data, str) else data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def _writable(text: str, stream: TextIO) -> str:
    """Return a text of which the stream can encode every character."""
    text = whole_characters(text)
    if text.isascii() or is_unicode(stream):
        return text
    return text.encode(stream.encoding, "replace").decode(stream.encoding)


def _silence(stream: TextIO) -> None:
    """Let whatever comes go nowhere: Python flushes once more at exit, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
