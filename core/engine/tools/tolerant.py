r"""JSON as models write it, read while it grows and written as JSON. Imports no arrays.

What is JSON already is written as it stands, white space included. Single quotes, bare keys,
trailing commas, Python's literals, raw control characters in strings and closing brackets missing
at the end are repaired on the way. Anything else ends the reading: what was written up to there is
no complete value then, and nothing is closed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from core.engine.tools import repairs as kinds
from core.engine.tools.source import Source, Stops, Wait, Written

DEEPEST = 200
"""Containers in each other; Python's own reader stops near 1,000."""
LONGEST_TOKEN = 400
"""Characters of a number; no one writes longer ones, and Python refuses 4,300 digits."""

_CLOSERS = {"{": "}", "[": "]"}
_SPACE = re.compile(r"[ \t\n\r]+")
_TOKEN = re.compile(r"[^\s,:\[\]{}()\"'`<>]+")
_BARE_TEXT = re.compile(r"[^,\[\]{}<\n]+")
_KEY = re.compile(r"[\w$][\w$.\-]*")
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_PLAIN = {
    '"': re.compile(r'[^"\\\x00-\x1f]+'),
    "'": re.compile(r"[^'\\\x00-\x1f]+"),
}
_CONTROL = re.compile(r"[\x00-\x1f]+")
_ESCAPES = frozenset('"\\/bfnrt')
_PYTHON = {"True": "true", "False": "false", "None": "null"}


@dataclass(frozen=True, kw_only=True)
class Notation:
    """How a family writes JSON-like values."""

    delimiters: tuple[str, ...] = ()
    """Texts around strings, beside quotes; between them there are no escapes, and keys are bare."""
    bare_text: bool = False
    """Whether strings may stand without quotes."""
    python: bool = False
    """Whether values are Python's: its quotes, literals and escapes need no repair."""


JSON = Notation()


def quoted(text: str) -> str:
    """Return a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def inside(text: str) -> str:
    """Return what stands between the quotes of a JSON string."""
    return quoted(text)[1:-1]


def whole(text: str, repairs: set[str] | None = None) -> str | None:
    """Return the one value that `text` is, as JSON; None: it is not one.

    Args:
        text: all of it.
        repairs: gets the kinds of repair that were needed.
    """
    source = Source(text, over=True, cut=True)
    reader = JsonReader(source)
    steps = reader.read()
    written: list[str] = []
    while True:
        try:
            written.append(next(steps) or "")
        except StopIteration as end:
            if not end.value or source.rest().strip():
                return None
            if repairs is not None:
                repairs |= reader.repairs
            return "".join(written)


def scalar(token: str, repairs: set[str] | None = None) -> str | None:
    """Return a literal or a number as JSON; None: it is neither.

    Args:
        token: without white space around it.
        repairs: gets the kind of repair that was needed.
    """
    if len(token) <= LONGEST_TOKEN and _SCALAR.fullmatch(token):
        return token
    if token not in _PYTHON:
        return None
    if repairs is not None:
        repairs.add(kinds.PYTHON_LITERAL)
    return _PYTHON[token]


class JsonReader:
    """Reads one value and writes it as JSON.

    Attributes:
        repairs: the kinds of repair that were needed so far.
    """

    def __init__(
        self,
        source: Source,
        notation: Notation = JSON,
        *,
        ends: Iterable[str] = (),
        repairs: set[str] | None = None,
    ) -> None:
        """Take what to read.

        Args:
            source: the text.
            notation: how values are written.
            ends: texts that end the value: closing brackets missing before them are added.
            repairs: gets the kinds of repair that were needed; None: a set of its own.
        """
        self._source = source
        self._stops = {mark: Stops([mark]) for mark in notation.delimiters}
        self._notation = notation
        self._ends = tuple(ends)
        self._open: list[str] = []
        self._filled: list[bool] = []
        self._lead = ""
        self.repairs = set[str]() if repairs is None else repairs

    def read(self, lead: str = "") -> Written[bool]:
        """Write `lead` and the value; return whether the value was complete.

        Where it was not, what was written is the beginning of a value.
        """
        self._lead = lead
        good = yield from self._value()
        while good and self._open:
            good = yield from self._member()
        return good

    def text(self) -> Wait[str | None]:
        """Return the string that comes next, decoded; None: there is none, or it is damaged."""
        written = yield from self._literal()
        return None if written is None else str(json.loads(written))

    def key(self) -> Wait[str | None]:
        """Read a key and its colon; return the key as a JSON string; None: there is none."""
        key = yield from self._name()
        if key is None:
            return None
        yield from self._source.white()
        return key if (yield from self._source.skip(":")) else None

    def _value(self) -> Written[bool]:
        self._lead += yield from self._space()
        first = yield from self._source.peek()
        if first in _CLOSERS:
            return (yield from self._container(first))
        quote = yield from self._quote()
        if quote:
            return (yield from self._string(quote))
        return (yield from self._scalar())

    def _container(self, first: str) -> Written[bool]:
        if len(self._open) == DEEPEST:
            return False
        self._source.take(1)
        self._open.append(_CLOSERS[first])
        self._filled.append(False)
        yield self._led(first)
        return True

    def _member(self) -> Written[bool]:
        """Write one more member of the innermost container, or its end."""
        lead = yield from self._space()
        if (yield from self._source.peek()) == self._open[-1]:
            yield self._close(lead)
            return True
        if self._filled[-1]:
            if not (yield from self._source.skip(",")):
                return (yield from self._end(lead))
            space = yield from self._space()
            if (yield from self._source.peek()) == self._open[-1]:
                self.repairs.add(kinds.TRAILING_COMMA)
                yield self._close(lead + space)
                return True
            lead += "," + space
        if self._open[-1] == "}":
            key = yield from self._name()
            space = yield from self._space()
            if key is None or not (yield from self._source.skip(":")):
                return False
            lead += f"{key}{space}:"
        self._filled[-1] = True
        self._lead = lead
        return (yield from self._value())

    def _close(self, lead: str) -> str:
        """Read the bracket that closes the innermost container and return what to write."""
        self._source.take(1)
        self._filled.pop()
        return lead + self._open.pop()

    def _end(self, lead: str) -> Written[bool]:
        """Close what is open, if nothing but closing brackets is missing."""
        if not (yield from self._source.closing(self._ends)):
            return False
        self.repairs.add(kinds.CLOSING_BRACKETS)
        yield lead + "".join(reversed(self._open))
        self._open.clear()
        return True

    def _name(self) -> Wait[str | None]:
        """Read a key and return it as a JSON string; None: there is none."""
        if not (yield from self._source.peek()) or (yield from self._at_quote()):
            return (yield from self._literal())
        name = yield from self._source.ahead(_KEY, LONGEST_TOKEN)
        if not name:
            return None
        if not self._notation.delimiters:
            self.repairs.add(kinds.QUOTES)
        return quoted(self._source.take(len(name)))

    def _literal(self) -> Wait[str | None]:
        """Return the string that comes next, as JSON; None: there is none, or it is damaged."""
        quote = yield from self._quote()
        if not quote:
            return None
        parts: list[str] = []
        while part := (yield from self._piece(quote)):
            parts.append(part)
        return None if part == "" else f'"{"".join(parts)}"'

    def _string(self, quote: str) -> Written[bool]:
        yield self._led('"')
        while part := (yield from self._piece(quote)):
            yield part
        if part == "":
            return False
        yield '"'
        return True

    def _scalar(self) -> Written[bool]:
        bare = self._notation.bare_text
        token = yield from self._source.ahead(_BARE_TEXT if bare else _TOKEN, LONGEST_TOKEN)
        token = token.rstrip()
        value = scalar(token, None if self._notation.python else self.repairs)
        if value is None and bare and token:
            self.repairs.add(kinds.QUOTES)
            value = quoted(token)
        if value is None:
            return False
        self._source.take(len(token))
        yield self._led(value)
        return True

    def _led(self, text: str) -> str:
        text = self._lead + text
        self._lead = ""
        return text

    def _space(self) -> Wait[str]:
        """Read the white space that JSON allows and return it."""
        parts: list[str] = []
        while part := (yield from self._source.run(_SPACE)):
            parts.append(part)
        return "".join(parts)

    def _at_quote(self) -> Wait[bool]:
        if (yield from self._source.peek()) in _PLAIN:
            return True
        for mark in self._stops:
            if (yield from self._source.starts(mark)):
                return True
        return False

    def _quote(self) -> Wait[str]:
        """Read the mark that begins a string and return it; "": none."""
        first = yield from self._source.peek()
        if first and first in _PLAIN:
            if first == "'" and not self._notation.python:
                self.repairs.add(kinds.QUOTES)
            return self._source.take(1)
        for mark in self._stops:
            if (yield from self._source.skip(mark)):
                return mark
        return ""

    def _piece(self, quote: str) -> Wait[str | None]:
        """Return more of a string as JSON; None: it was closed; "": it is damaged, or cut."""
        if quote not in _PLAIN:
            piece = yield from self._source.until(self._stops[quote])
            if piece or (yield from self._source.ended()):
                return inside(piece)
            self._source.take(len(quote))
            return None
        run = yield from self._source.run(_PLAIN[quote])
        if run:
            return run if quote == '"' else run.replace('"', '\\"')
        if (yield from self._source.peek()) == "\\":
            return (yield from self._escape(quote))
        if (yield from self._source.skip(quote)):
            return None
        control = yield from self._source.run(_CONTROL)
        if control:
            self.repairs.add(kinds.CONTROL_CHARACTERS)
        return inside(control)

    def _escape(self, quote: str) -> Wait[str]:
        """Return an escape as JSON has it; "": it means nothing, or is cut."""
        python = self._notation.python
        kind = (yield from self._source.peek(2))[1:]
        if kind in _ESCAPES:
            return self._source.take(2)
        if kind == "u" and _is_hex((yield from self._source.peek(6))[2:], 4):
            return self._source.take(6)
        if kind == "'" and (python or quote == "'"):
            return self._source.take(2)[1]
        if python and kind == "x" and _is_hex((yield from self._source.peek(4))[2:], 2):
            return inside(chr(int(self._source.take(4)[2:], 16)))
        return ""


def _is_hex(text: str, size: int) -> bool:
    return len(text) == size and all(c in "0123456789abcdefABCDEF" for c in text)
