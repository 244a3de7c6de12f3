"""Calls written as Python calls, with named arguments. Imports no arrays."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from core.engine.tools import blocks
from core.engine.tools.calls import LONGEST_NAME, Reading, Steps
from core.engine.tools.envelope import Envelope
from core.engine.tools.source import Written
from core.engine.tools.tolerant import JsonReader, quoted

_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_SEPARATORS = re.compile(r"[\s,]+")


def bare_list(reading: Reading) -> Steps[bool]:
    """Read a list of calls of known tools, from behind its bracket."""
    return (yield from calls(reading, bare=True))


def calls(reading: Reading, *, bare: bool) -> Steps[bool]:
    """Read a list of calls from behind its bracket; JSON objects may be among them.

    Args:
        reading: the text and the calls.
        bare: no marker came before: only known tools are called.
    """
    source = reading.source
    good = True
    while good:
        yield from source.skip_run(_SEPARATORS)
        if (yield from source.skip("]")):
            return blocks.settled(reading)
        if not source.held:
            source.hold()
        if (yield from source.starts("{")):
            good = yield from Envelope(reading, bare=bare).read()
        else:
            good = yield from call(reading, bare=bare)
    return (yield from blocks.mended(reading, "]"))


def call(reading: Reading, *, bare: bool = True) -> Steps[bool]:
    """Read one call."""
    source = reading.source
    name = source.take(len((yield from source.ahead(_NAME, LONGEST_NAME))))
    known = reading.calls.known(name)
    if not name or (bare and not known) or not (yield from source.skip("(")):
        return False
    yield from reading.announce(name)
    return (yield from reading.stream(_arguments(reading)))


def _arguments(reading: Reading) -> Written[bool]:
    """Write what stands in the parentheses as one object."""
    source = reading.source
    lead, good = "{", True
    while good:
        yield from source.skip_run(_SEPARATORS)
        if (yield from source.skip(")")):
            break
        key = source.take(len((yield from source.ahead(_NAME, LONGEST_NAME))))
        yield from source.white()
        good = bool(key) and (yield from source.skip("="))
        if good:
            value = _Value(JsonReader(source))
            good = yield from value.read(f"{lead}{quoted(key)}:")
            lead = "," if value.written else lead
    yield "{}" if lead == "{" else "}"
    if good:
        source.settle()
    return good


class _Value:
    """One value, and whether anything of it was written."""

    def __init__(self, reader: JsonReader) -> None:
        self._reader = reader
        self.written = False

    def read(self, lead: str) -> Written[bool]:
        steps = self._reader.read(lead)
        while True:
            try:
                part = next(steps)
            except StopIteration as end:
                good: bool = end.value
                return good
            self.written = self.written or part is not None
            yield part


def literal(value: Any) -> str:
    """Return a JSON value as Python writes it, texts in double quotes."""
    if isinstance(value, Mapping):
        pairs = (f"{literal(str(key))}: {literal(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
