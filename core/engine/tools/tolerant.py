r"""JSON as models write it, read while it grows and written as JSON. Imports no arrays.

Single quotes, bare keys, missing, doubled and trailing commas, Python's literals and strings,
broken numbers and raw line breaks in strings are mended on the way. Where the text ends or stops
making sense, what is open is closed after the last value that made sense: what comes out is valid
JSON, always.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from core.engine.tools.source import Source, Stops, Wait, Written

DEEPEST = 200
"""Containers in each other; Python's own reader stops near 1,000."""
LONGEST_TOKEN = 400
"""Characters of a number; no one writes longer ones, and Python refuses 4,300 digits."""

_CLOSERS = {"{": "}", "[": "]"}
_SEPARATORS = re.compile(r"[\s,]+")
_TOKEN = re.compile(r"[^\s,:\[\]{}()\"'`<>]+")
_BARE_TEXT = re.compile(r"[^,\[\]{}<]+")
_KEY = re.compile(r"[\w$][\w$.\-]*")
_NUMBER = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?", re.ASCII)
_PLAIN = {'"': re.compile(r'[^"\\]+'), "'": re.compile(r"[^'\\]+")}
_WORDS = {
    "true": "true",
    "false": "false",
    "null": "null",
    "True": "true",
    "False": "false",
    "None": "null",
    "NaN": "null",
    "Infinity": "null",
    "-Infinity": "null",
}
_ESCAPES = {
    '"': '"',
    "'": "'",
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}


@dataclass(frozen=True, kw_only=True)
class Notation:
    """How a family writes JSON-like values."""

    delimiters: tuple[str, ...] = ()
    """Texts around strings, beside quotes; between them there are no escapes."""
    bare_text: bool = False
    """Whether strings may stand without quotes."""


JSON = Notation()


def quoted(text: str) -> str:
    """Return a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def inside(text: str) -> str:
    """Return what stands between the quotes of a JSON string."""
    return quoted(text)[1:-1]


def whole(text: str) -> str | None:
    """Return the one value that `text` is, as JSON; None: it is not one."""
    source = Source(text, over=True)
    reader = JsonReader(source)
    steps = reader.read()
    written: list[str] = []
    while True:
        try:
            written.append(next(steps) or "")
        except StopIteration as end:
            return "".join(written) if end.value and not source.rest().strip() else None


def scalar(token: str) -> str | None:
    """Return a literal or a number as JSON; None: it is neither."""
    if token in _WORDS:
        return _WORDS[token]
    match = _NUMBER.fullmatch(token) if len(token) <= LONGEST_TOKEN else None
    if not match or not (match[2] or match[3]):
        return None
    sign = "-" if match[1] == "-" else ""
    fraction = f".{match[3]}" if match[3] else ""
    power = f"e{match[4]}" if match[4] else ""
    return sign + (match[2].lstrip("0") or "0") + fraction + power


class JsonReader:
    """Reads one value and writes it as compact JSON."""

    def __init__(self, source: Source, notation: Notation = JSON) -> None:
        self._source = source
        self._stops = {mark: Stops([mark]) for mark in notation.delimiters}
        self._notation = notation
        self._open: list[str] = []
        self._filled: list[bool] = []
        self._lead = ""

    def read(self, lead: str = "") -> Written[bool]:
        """Write the value; return whether it was complete.

        Either nothing is written, or `lead` and one valid value.
        """
        self._lead = lead
        good = yield from self._value()
        while good and self._open:
            good = yield from self._member()
        if self._open:
            yield "".join(reversed(self._open))
            self._open.clear()
        return good

    def text(self) -> Wait[str | None]:
        """Return the string that comes next, decoded; None: there is none, or it is cut."""
        quote = yield from self._quote()
        if not quote:
            return None
        parts: list[str] = []
        while part := (yield from self._piece(quote)):
            parts.append(part)
        return None if part == "" else "".join(parts)

    def _value(self) -> Written[bool]:
        yield from self._source.white()
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
        yield from self._put(first)
        return True

    def _member(self) -> Written[bool]:
        """Write one more member of the innermost container, or its end."""
        yield from self._source.skip_run(_SEPARATORS)
        first = yield from self._source.peek()
        if first == self._open[-1]:
            self._source.take(1)
            self._filled.pop()
            yield self._open.pop()
            self._source.settle()
            return True
        lead = "," if self._filled[-1] else ""
        if self._open[-1] == "}":
            key = yield from self.key()
            if key is None:
                return False
            lead += f"{quoted(key)}:"
        self._filled[-1] = True
        self._lead = lead
        return (yield from self._value())

    def key(self) -> Wait[str | None]:
        """Read a key and its colon and return it; None: there is none."""
        if (yield from self._source.peek()) and not (yield from self._at_quote()):
            name = yield from self._source.ahead(_KEY, LONGEST_TOKEN)
            key: str | None = self._source.take(len(name)) or None
        else:
            key = yield from self.text()
        yield from self._source.white()
        return key if (yield from self._source.skip(":")) else None

    def _string(self, quote: str) -> Written[bool]:
        yield from self._put('"')
        while part := (yield from self._piece(quote)):
            yield inside(part)
            self._source.settle()
        yield '"'
        self._source.settle()
        return part is None

    def _scalar(self) -> Written[bool]:
        bare = self._notation.bare_text
        token = yield from self._source.ahead(_BARE_TEXT if bare else _TOKEN, LONGEST_TOKEN)
        value = scalar(token.strip())
        if value is None and bare and token.strip():
            value = quoted(token.strip())
        if value is None:
            return False
        self._source.take(len(token))
        yield from self._put(value)
        return True

    def _put(self, text: str) -> Written[None]:
        yield self._lead + text
        self._lead = ""
        self._source.settle()

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
            return self._source.take(1)
        for mark in self._stops:
            if (yield from self._source.skip(mark)):
                return mark
        return ""

    def _piece(self, quote: str) -> Wait[str | None]:
        if quote in _PLAIN:
            return (yield from string_piece(self._source, quote))
        piece = yield from self._source.until(self._stops[quote])
        if piece or (yield from self._source.ended()):
            return piece
        self._source.take(len(quote))
        return None


def string_piece(source: Source, quote: str) -> Wait[str | None]:
    """Return more of a string, decoded; None: its quote closed it; "": the text is over."""
    run = yield from source.run(_PLAIN[quote])
    if run:
        return run
    first = yield from source.peek()
    if first == quote:
        source.take(1)
        return None
    return (yield from _escape(source)) if first else ""


def _escape(source: Source) -> Wait[str]:
    r"""Return what a backslash stands for; one that stands for nothing is itself; "": cut."""
    head = yield from source.peek(2)
    if len(head) < 2:
        source.take(2)
        return ""
    if head[1] in _ESCAPES:
        source.take(2)
        return _ESCAPES[head[1]]
    if head[1] == "u":
        return (yield from _code_point(source))
    if head[1] == "x" and _is_hex((yield from source.peek(4))[2:], 2):
        return chr(int(source.take(4)[2:], 16))
    source.take(1)
    return "\\"


def _code_point(source: Source) -> Wait[str]:
    digits = yield from source.peek(6)
    if not _is_hex(digits[2:], 4):
        cut = len(digits) < 6
        source.take(6 if cut else 1)
        return "" if cut else "\\"
    source.take(6)
    code = int(digits[2:], 16)
    if 0xD800 <= code < 0xDC00 and (yield from source.starts("\\u")):
        low = yield from source.peek(6)
        if _is_hex(low[2:], 4) and 0xDC00 <= int(low[2:], 16) < 0xE000:
            source.take(6)
            return chr(0x10000 + ((code - 0xD800) << 10) + int(low[2:], 16) - 0xDC00)
    return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)


def _is_hex(text: str, size: int) -> bool:
    return len(text) == size and all(c in "0123456789abcdefABCDEF" for c in text)


class Decoded(Source):
    """The text of a JSON string, read while the string is.

    It takes from the string no more than is read here, so that where reading fails does not depend
    on how the text was cut.
    """

    def __init__(self, outer: Source, quote: str) -> None:
        super().__init__()
        self._outer = outer
        self._quote = quote
        self.closed = False

    def _fill(self) -> Wait[None]:
        first = yield from self._outer.peek()
        if first == "\\":
            first = yield from _escape(self._outer)
        else:
            self._outer.take(1)
            self.closed = first == self._quote
        self.over = self.closed or not first
        self.push("" if self.over else first)

    def run(self, pattern: re.Pattern[str]) -> Wait[str]:
        """Read what matches; a string's text within this one comes all at once."""
        if pattern is _PLAIN[self._quote] and self._at == len(self._text) and not self.over:
            return (yield from self._outer.run(pattern)) or (yield from super().run(pattern))
        return (yield from super().run(pattern))

    def settle(self) -> None:
        """Forget what was read, here and outside; what was only looked at is kept."""
        super().settle()
        self._outer.settle()
        ahead = self._text[self._at :]
        if ahead and not self._outer.held:
            self._outer.leave(ahead)

    def give_up(self) -> None:
        """Leave what was not settled to be shown: it is no object."""
        self._outer.left = not self._outer.held
