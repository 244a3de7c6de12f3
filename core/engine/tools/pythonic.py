"""Calls written as Python calls, with named arguments. Imports no arrays."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from core.engine.tools import repairs as kinds
from core.engine.tools.calls import LONGEST_NAME, Reading, Steps
from core.engine.tools.envelope import Envelope
from core.engine.tools.source import Wait, Written
from core.engine.tools.tolerant import Notation, quoted

_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_PYTHON = Notation(python=True)


def bare_list(reading: Reading) -> Steps[bool]:
    """Read a list of calls of known tools, from behind its bracket, that no marker ends."""
    reading.start()
    good = yield from calls(reading, bare=True)
    return (yield from reading.finish(good=good, loose=True))


def calls(reading: Reading, *, bare: bool) -> Steps[bool]:
    """Read a list of calls from behind its bracket; JSON objects may be among them.

    Args:
        reading: the text and the calls.
        bare: no marker came before: only known tools are called.

    Returns:
        Whether there were any and all of it was complete.
    """
    source = reading.source
    reading.around = ("]",)
    while True:
        yield from source.white()
        if (yield from source.skip("]")):
            return reading.calling
        if reading.calling:
            if not (yield from source.skip(",")):
                cut = source.cut and (yield from source.ended())
                return cut or (yield from _lacks_brackets(reading))
            yield from source.white()
            if (yield from source.skip("]")):
                reading.repairs.add(kinds.TRAILING_COMMA)
                return True
        if reading.calling:
            source.hold()
        if (yield from source.starts("{")):
            good = yield from Envelope(reading, bare=bare).read()
        else:
            good = yield from call(reading, bare=bare)
        if not good:
            return False


def call(reading: Reading, *, bare: bool = True) -> Steps[bool]:
    """Read one call; return whether there was one and it was complete."""
    source = reading.source
    name = source.take(len((yield from source.ahead(_NAME, LONGEST_NAME))))
    known = reading.calls.known(name)
    if not name or (bare and not known) or not (yield from source.skip("(")):
        return False
    yield from reading.announce(name)
    reading.closers = (")", *reading.around)
    reading.begin(verbatim=False)
    return (yield from reading.stream(_arguments(reading)))


def _arguments(reading: Reading) -> Written[bool]:
    """Write what stands in the parentheses as one object."""
    source = reading.source
    lead = "{"
    while True:
        yield from source.white()
        if (yield from source.skip(")")):
            break
        if lead == ",":
            if not (yield from source.skip(",")):
                if not (yield from _lacks_brackets(reading)):
                    return False
                break
            yield from source.white()
            if (yield from source.skip(")")):
                break
        key = source.take(len((yield from source.ahead(_NAME, LONGEST_NAME))))
        yield from source.white()
        if not key or not (yield from source.skip("=")):
            return False
        yield from source.white()
        if not (yield from reading.json(_PYTHON).read(f"{lead}{quoted(key)}:")):
            return False
        lead = ","
    yield "{}" if lead == "{" else "}"
    return True


def _lacks_brackets(reading: Reading) -> Wait[bool]:
    """Return whether nothing but closing brackets is missing."""
    if not (yield from reading.source.closing(reading.ends)):
        return False
    reading.repairs.add(kinds.CLOSING_BRACKETS)
    return True


def literal(value: Any) -> str:
    """Return a JSON value as Python writes it, texts in double quotes."""
    if isinstance(value, Mapping):
        pairs = (f"{literal(str(key))}: {literal(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
