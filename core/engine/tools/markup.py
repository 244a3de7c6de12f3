"""Calls written as tags, with one tag for each argument. Imports no arrays."""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.engine.tools import repairs as kinds
from core.engine.tools.calls import Reading, Steps
from core.engine.tools.source import Source, Wait, Written
from core.engine.tools.tolerant import JSON
from core.engine.tools.values import Framing, RawArguments

_TAG = re.compile(r"[^<>\n]+")
_LONGEST_TAG = 1000
"""Characters of a tag, within it the name of a function or of an argument."""
_ATTRIBUTE = re.compile(r"""(\w+)\s*=\s*["']([^"']*)["']""")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The tags of a family, each up to where a name begins."""

    call: str
    """Opens a call; its name and `>` follow."""
    call_end: str
    """Closes it."""
    parameter: str
    """Opens an argument; its name and `key_end` follow."""
    parameter_end: str
    """Closes it."""
    key_end: str = ">"
    """Ends an argument's name."""
    value: str | None = None
    """Opens the value, where the argument's name has a tag of its own."""
    framing: Framing = "none"
    """What stands around a value."""
    cdata: bool = False
    """Whether values may be wrapped in CDATA."""


class TaggedCall:
    """Reads one call and sends it."""

    def __init__(
        self, reading: Reading, dialect: Dialect, *, bare: bool = False, keep_end: bool = False
    ) -> None:
        """Read from behind `dialect.call`.

        Args:
            reading: the text and the calls.
            dialect: its tags.
            bare: no marker came before: only a known tool is a call.
            keep_end: whether the tag that closes the call is left to be read.
        """
        self._reading = reading
        self._source: Source = reading.source
        self._dialect = dialect
        self._bare = bare
        self._keep_end = keep_end

    def read(self) -> Steps[bool]:
        """Read a call that begins with its name in a tag.

        Returns:
            Whether there was one and it was complete.
        """
        name, _ = yield from self._tag(">")
        calls = self._reading.calls
        if not calls.known(name) and (self._bare or not self._reading.plausible(name)):
            return False
        yield from self._reading.announce(name)
        yield from self._source.white()
        if (yield from self._source.starts("{")):
            return (yield from self._json())
        return (yield from self.arguments(name))

    def arguments(self, name: str) -> Steps[bool]:
        """Read the arguments of a call that was announced; return whether it was complete."""
        self._reading.closers = (self._dialect.call_end, *self._reading.around)
        self._reading.begin(verbatim=False)
        return (yield from self._reading.stream(self._members(name)))

    def _members(self, name: str) -> Written[bool]:
        written = RawArguments(
            self._source,
            self._reading.calls.parameters(name),
            framing=self._dialect.framing,
            repairs=self._reading.repairs,
        )
        while not (yield from self._ended()):
            if not (yield from self._argument(written)):
                return False
        yield written.close()
        return True

    def _json(self) -> Steps[bool]:
        """Read arguments that are an object after all."""
        reading, end = self._reading, self._dialect.call_end
        reading.begin()
        good = yield from reading.stream(reading.json(JSON, end).read())
        reading.closers = (end, *reading.around)
        return good and (yield from self._ended())

    def _ended(self) -> Wait[bool]:
        """Return whether the call ends here, and read its end."""
        source, end = self._source, self._dialect.call_end
        yield from source.white()
        if (yield from source.starts(end)):
            source.take(0 if self._keep_end else len(end))
            return True
        if not (yield from source.closing(self._reading.ends)):
            return (not source.cut) and (yield from source.skip_end(end))
        self._reading.repairs.add(kinds.CLOSING_TAGS)
        return True

    def _argument(self, written: RawArguments) -> Written[bool]:
        if not (yield from self._source.skip(self._dialect.parameter)):
            return False
        key, text = yield from self._tag(self._dialect.key_end)
        if not key:
            return False
        if self._dialect.value is not None:
            yield from self._source.white()
            if not (yield from self._source.skip(self._dialect.value)):
                return False
        return (
            yield from written.member(
                key, self._dialect.parameter_end, cdata=self._dialect.cdata, text=text
            )
        )

    def _tag(self, end: str) -> Wait[tuple[str, bool | None]]:
        """Read a name up to `end`, with what is said about the value; "": there is none."""
        tag = self._source.take(len((yield from self._source.ahead(_TAG, _LONGEST_TAG))))
        if not (yield from self._source.skip(end)):
            return "", None
        attributes = dict(_ATTRIBUTE.findall(tag))
        text = attributes.get("string")
        name = re.split(r"""["']\s""", tag, maxsplit=1)[0] if text else tag
        return name.strip().strip("\"'"), None if text is None else text == "true"
