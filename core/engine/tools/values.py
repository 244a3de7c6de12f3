"""Arguments given as raw text between tags, sent as JSON while they grow. Imports no arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from core.engine.tools.schema import choices, decode, kinds_map, may_differ, property_kinds
from core.engine.tools.source import Source, Stops, Wait, Written
from core.engine.tools.tolerant import inside, quoted

Framing = Literal["none", "newline", "space"]
"""What a family writes around a value: nothing, one line break at either end, any white space."""

_CDATA = "<![CDATA["
_CDATA_END = Stops(["]]>"])


class RawArguments:
    """Writes an object whose members come one by one as raw text."""

    def __init__(
        self,
        source: Source,
        parameters: Mapping[str, Any],
        *,
        framing: Framing,
        repairs: set[str],
    ) -> None:
        """Take what to read.

        Args:
            source: the text.
            parameters: the tool's schema.
            framing: what stands around values.
            repairs: gets the kinds of repair that values need.
        """
        self._source = source
        self._repairs = repairs
        self._parameters = parameters
        self._framing: Framing = framing
        self._empty = True

    def close(self) -> str:
        """Return what ends the object."""
        return "{}" if self._empty else "}"

    def member(
        self, key: str, end: str, *, cdata: bool = False, text: bool | None = None
    ) -> Written[bool]:
        """Read a value up to `end` and past it, and write it; return whether `end` came.

        A value without its end is not closed, or not written at all.

        Args:
            key: the parameter.
            end: the tag that closes it.
            cdata: whether the value may be wrapped so that it can hold anything.
            text: whether the markup says that it is a string; None: the schema tells.
        """
        framing = yield from self._frame()
        wrapped = cdata and (yield from self._enter_cdata())
        value = _Value(self._source, end, framing="none" if wrapped else framing)
        if wrapped:
            value.unwrap()
        allowed = property_kinds(key, self._parameters)
        allowed = allowed if text is None else frozenset({"string"}) if text else allowed
        found = choices(kinds_map(self._parameters).get(key), self._parameters)
        if found:
            return (yield from self._chosen(key, value, found))
        if allowed == {"string"} or not (yield from self._undecided(allowed)):
            return (yield from self._stream(key, value))
        return (yield from self._decoded(key, value, allowed))

    def _undecided(self, allowed: frozenset[str]) -> Wait[bool]:
        """Tell whether the value may turn out to be no string."""
        if "string" not in allowed:
            return True
        first = yield from self._source.peek()
        return bool(first) and may_differ(first, allowed)

    def _frame(self) -> Wait[Framing]:
        """Read what stands before a value; return what is to be expected behind it."""
        if self._framing == "space":
            yield from self._source.white()
        elif self._framing == "newline" and not (yield from self._source.skip("\n")):
            # What begins in the line of its tag ends in the line of the other: a text that ends
            # with a line break keeps it.
            return "none"
        return self._framing

    def _enter_cdata(self) -> Wait[bool]:
        """Tell whether the value is wrapped."""
        return (yield from self._source.skip(_CDATA))

    def _stream(self, key: str, value: _Value) -> Written[bool]:
        lead = self._lead(key) + '"'
        while part := (yield from value.piece()):
            yield lead + inside(part)
            lead = ""
        if not value.closed:
            return False
        self._empty = False
        yield lead + '"'
        return True

    def _chosen(self, key: str, value: _Value, found: Sequence[str]) -> Written[bool]:
        """Write one of some texts: white space around it is no part of it."""
        raw = yield from value.whole()
        if not value.closed:
            return False
        text = raw if raw in found or raw.strip() not in found else raw.strip()
        yield self._lead(key) + quoted(text)
        self._empty = False
        return True

    def _decoded(self, key: str, value: _Value, allowed: frozenset[str]) -> Written[bool]:
        raw = yield from value.whole()
        if not value.closed:
            return False
        yield self._lead(key) + (decode(raw, allowed, self._repairs) or quoted(raw))
        self._empty = False
        return True

    def _lead(self, key: str) -> str:
        return f"{'{' if self._empty else ','}{quoted(key)}:"


class _Value:
    """The text of a value, without what frames it."""

    def __init__(self, source: Source, end: str, *, framing: Framing) -> None:
        self._source = source
        self._end = end
        self._stops = Stops([end])
        self._framing: Framing = framing
        self._tail: list[str] = []
        self._wrapped = False
        self.closed = False

    def unwrap(self) -> None:
        """Read a value that is in CDATA."""
        self._wrapped = True

    def piece(self) -> Wait[str]:
        """Return more of the value; "": it is over."""
        while True:
            text = yield from self._next()
            if not text:
                return "" if self.closed else self._rest()
            if self._framing == "space" and text.isspace():
                self._tail.append(text)
                continue
            text = "".join(self._tail) + text
            kept = _KEEPERS[self._framing](text)
            self._tail = [text[kept:]]
            if kept:
                return text[:kept]

    def _rest(self) -> str:
        """Return what was taken for framing: no end followed."""
        rest, self._tail = "".join(self._tail), []
        return rest

    def whole(self) -> Wait[str]:
        """Return all of the value."""
        parts: list[str] = []
        while part := (yield from self.piece()):
            parts.append(part)
        return "".join(parts)

    def _next(self) -> Wait[str]:
        while True:
            text = yield from self._source.until(_CDATA_END if self._wrapped else self._stops)
            if text or (yield from self._source.ended()):
                return text
            if not self._wrapped:
                self._source.take(len(self._end))
                self.closed = True
                return ""
            self._source.take(3)
            yield from self._source.white()
            self._wrapped = yield from self._source.skip(_CDATA)


def _all(text: str) -> int:
    return len(text)


def _before_newline(text: str) -> int:
    return len(text) - text.endswith("\n")


def _before_space(text: str) -> int:
    return len(text.rstrip())


_KEEPERS: dict[Framing, Callable[[str], int]] = {
    "none": _all,
    "newline": _before_newline,
    "space": _before_space,
}
"""How much of a piece is part of the value for certain; the rest may be framing."""
