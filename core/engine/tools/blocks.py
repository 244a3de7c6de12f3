"""Bodies of markup: what stands between a family's markers. Imports no arrays.

A body reads from behind its marker and sends the calls in it. It returns whether all that it read
is settled; if not, what is left is shown as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from core.engine.tools.arguments import read_object, skip_fence
from core.engine.tools.calls import LONGEST_NAME, NAME, Reading, Steps
from core.engine.tools.envelope import Envelope
from core.engine.tools.markup import Dialect, TaggedCall
from core.engine.tools.source import Wait
from core.engine.tools.tolerant import JsonReader, Notation

Body: TypeAlias = Callable[[Reading], Steps[bool]]

TOOL_CALL = "<tool_call>"
TOOL_CALL_END = "</tool_call>"

QWEN = Dialect(
    call="<function=",
    call_end="</function>",
    parameter="<parameter=",
    parameter_end="</parameter>",
    framing="newline",
)
GLM = Dialect(
    call=TOOL_CALL,
    call_end=TOOL_CALL_END,
    parameter="<arg_key>",
    key_end="</arg_key>",
    value="<arg_value>",
    parameter_end="</arg_value>",
)

_STRAY = re.compile(r"[\s`}\],;]+")
_FENCE = re.compile(r"[\s`]+")
_PROSE = re.compile(r"[^<{]+")
_LONGEST_PROSE = 200
"""Characters that a model may say between the marker and the call."""


def tool_call(reading: Reading) -> Steps[bool]:
    """Read `<tool_call>…</tool_call>`, in whichever of the forms that models put there."""
    source = reading.source
    good = yield from _one_call(reading)
    while good:
        yield from source.skip_run(_STRAY)
        if (yield from source.skip_end(TOOL_CALL_END)) or (yield from source.ended()):
            source.settle()
            return True
        if not (yield from source.starts("{")):
            return False
        source.hold()
        good = yield from Envelope(reading).read()
    return (yield from mended(reading, TOOL_CALL_END))


def mended(reading: Reading, end: str) -> Steps[bool]:
    """Tell whether a call that was not complete is followed by nothing but its end."""
    source = reading.source
    if source.held or source.left:
        return False
    yield from source.white()
    if (yield from source.skip_end(end)) or (yield from source.ended()):
        source.settle()
        return True
    return False


def _one_call(reading: Reading) -> Steps[bool]:
    source = reading.source
    yield from skip_fence(source)
    if (yield from source.skip(QWEN.call)):
        return (yield from TaggedCall(reading, QWEN).read())
    name = yield from source.ahead(NAME, LONGEST_NAME)
    if name:
        source.take(len(name))
        done = yield from _after_name(reading, name)
        if done is not None:
            return done
    elif (yield from source.skip("[")):
        yield from source.white()
    source.take(len((yield from source.ahead(_PROSE, _LONGEST_PROSE))))
    if not (yield from source.starts("{")):
        return False
    return (yield from Envelope(reading).read())


def _after_name(reading: Reading, name: str) -> Steps[bool | None]:
    """Read the arguments if the name is one: tags, an object or none follow. None: it is prose."""
    source = reading.source
    yield from source.white()
    if (yield from source.starts(GLM.parameter)):
        yield from reading.announce(name)
        return (yield from TaggedCall(reading, GLM, keep_end=True).arguments(name))
    known = reading.calls.known(name)
    if known and (yield from source.starts(TOOL_CALL_END)):
        yield from reading.announce(name)
        yield from reading.calls.write("{}")
        return True
    if known and (yield from source.starts("{")):
        yield from reading.announce(name)
        return (yield from reading.stream(read_object(source)))
    return None


def qwen_function(reading: Reading) -> Steps[bool]:
    """Read `<function=…>…</function>` that stands alone."""
    good = yield from TaggedCall(reading, QWEN, bare=True).read()
    if good:
        yield from reading.source.white()
        if (yield from reading.source.skip_end(TOOL_CALL_END)):
            reading.source.settle()
        return True
    return (yield from mended(reading, QWEN.call_end))


def fence_and(reading: Reading, end: str) -> Steps[bool]:
    """Tell whether the end of a fence, if any, and the end of the call follow."""
    if not reading.source.held:
        yield from reading.source.skip_run(_FENCE)
    return (yield from mended(reading, end))


def tagged(dialect: Dialect) -> Body:
    """Read one call in tags, with no marker around it."""

    def body(reading: Reading) -> Steps[bool]:
        good = yield from TaggedCall(reading, dialect).read()
        return good or (yield from mended(reading, dialect.call_end))

    return body


def named_block(dialect: Dialect) -> Body:
    """Read a block with a name, and tags up to its end."""

    def body(reading: Reading) -> Steps[bool]:
        source = reading.source
        yield from source.white()
        if (yield from source.starts("{")):
            good = yield from Envelope(reading).read()
            return (yield from mended(reading, dialect.call_end)) or good
        name = yield from name_ahead(reading)
        yield from source.white()
        empty = reading.calls.known(name) and (yield from source.starts(dialect.call_end))
        if not name or not (empty or (yield from source.starts(dialect.parameter))):
            return False
        yield from reading.announce(name)
        good = yield from TaggedCall(reading, dialect).arguments(name)
        return good or (yield from mended(reading, dialect.call_end))

    return body


def invocations(dialect: Dialect, end: str) -> Body:
    """Read calls in tags up to the end of their section."""

    def one(reading: Reading) -> Steps[bool | None]:
        if not (yield from reading.source.skip(dialect.call)):
            return None
        return (yield from tagged(dialect)(reading))

    return section(one, end)


def section(one: Callable[[Reading], Steps[bool | None]], end: str) -> Body:
    """Read calls one after the other up to the end of their section.

    Args:
        one: reads a call; None: there is none here.
        end: closes the section.
    """

    def body(reading: Reading) -> Steps[bool]:
        source = reading.source
        while True:
            yield from source.white()
            if (yield from source.skip_end(end)) or (yield from source.ended()):
                return settled(reading)
            if not source.held:
                source.hold()
            good = yield from one(reading)
            if not good:
                return good is not None and (yield from mended(reading, end))

    return body


def settled(reading: Reading) -> bool:
    """Settle what was read; False: there was no call, it is text."""
    if reading.source.held:
        return False
    reading.source.settle()
    return True


def sentinel_call(reading: Reading, notation: Notation) -> Steps[bool | None]:
    """Read Gemma's `call:name{key:value}`; None: there is none here."""
    source = reading.source
    if not (yield from source.skip("call:")):
        return None
    name = yield from name_ahead(reading)
    yield from source.white()
    if not name or not (yield from source.starts("{")):
        return False
    yield from reading.announce(name)
    return (yield from reading.stream(JsonReader(source, notation).read()))


def named_arguments(reading: Reading, name: str) -> Steps[bool]:
    """Send a call whose arguments come next as an object."""
    yield from reading.announce(name)
    return (yield from reading.stream(read_object(reading.source)))


def name_ahead(reading: Reading) -> Wait[str]:
    """Read a name; "": there is none."""
    return reading.source.take(len((yield from reading.source.ahead(NAME, LONGEST_NAME))))
