"""Bodies of markup: what stands between a family's markers. Imports no arrays.

A body reads from behind its marker and sends the calls in it. It returns whether there were any
and they are over; if not, what was read since the last call is shown as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from core.engine.tools import repairs as kinds
from core.engine.tools.arguments import read_arguments, skip_fence, skip_fence_end
from core.engine.tools.calls import LONGEST_NAME, NAME, Reading, Steps
from core.engine.tools.envelope import Envelope
from core.engine.tools.markup import Dialect, TaggedCall
from core.engine.tools.source import Wait
from core.engine.tools.tolerant import Notation

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
_PROSE = re.compile(r"[^<{]+")
_LONGEST_PROSE = 200
"""Characters that a model may say between the marker and the call."""


def tool_call(reading: Reading) -> Steps[bool]:
    """Read `<tool_call>…</tool_call>`, in whichever of the forms that models put there."""
    reading.start(TOOL_CALL_END, TOOL_CALL)
    good = yield from _one_call(reading)
    while good and (yield from _another(reading)):
        reading.source.hold()
        good = yield from Envelope(reading).read()
    return (yield from ended(reading, TOOL_CALL_END, good=good))


def ended(reading: Reading, end: str, *, good: bool) -> Steps[bool]:
    """End the call that was begun, and read the text that ends it; False: there was no call.

    Args:
        reading: the text and the calls.
        end: the text.
        good: whether the call was complete.
    """
    done = yield from reading.finish(good=good)
    if done:
        yield from reading.source.skip_end(end)
    return done


def _another(reading: Reading) -> Steps[bool]:
    """Read what stands behind a call in JSON; return whether one more follows."""
    source = reading.source
    stray = ""
    while len(stray) <= _LONGEST_PROSE and (part := (yield from source.run(_STRAY))):
        stray += part
    extra = stray.count("}") + stray.count("]") - reading.around.count("]")
    if extra > 0:
        reading.repairs.add(kinds.EXTRA_BRACKETS)
    if (yield from source.starts("{")):
        return True
    if "," in stray or ";" in stray:
        reading.repairs.add(kinds.TRAILING_COMMA)
    return False


def _one_call(reading: Reading) -> Steps[bool]:
    source = reading.source
    if (yield from skip_fence(source)):
        reading.repairs.add(kinds.CODE_FENCE)
        reading.around = ("```",)
    if (yield from source.skip(QWEN.call)):
        return (yield from TaggedCall(reading, QWEN).read())
    name = yield from name_ahead(reading)
    if name:
        done = yield from _after_name(reading, name)
        if done is not None:
            return done
    elif (yield from source.skip("[")):
        reading.around = ("]", *reading.around)
        yield from source.white()
    prose = source.take(len((yield from source.ahead(_PROSE, _LONGEST_PROSE))))
    if name or prose:
        reading.repairs.add(kinds.PROSE_PREFIX)
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
    if not reading.calls.known(name):
        return None
    if (yield from source.starts(TOOL_CALL_END)) or (yield from source.starts("{")):
        return (yield from named_arguments(reading, name))
    return None


def qwen_function(reading: Reading) -> Steps[bool]:
    """Read `<function=…>…</function>` that stands alone."""
    done = yield from tagged(QWEN, bare=True)(reading)
    if done:
        yield from reading.source.white()
        yield from reading.source.skip_end(TOOL_CALL_END)
    return done


def tagged(dialect: Dialect, *, bare: bool = False) -> Body:
    """Read one call in tags, with no marker around it.

    Args:
        dialect: its tags.
        bare: whether only a known tool is a call.
    """

    def body(reading: Reading) -> Steps[bool]:
        reading.start(dialect.call_end)
        good = yield from TaggedCall(reading, dialect, bare=bare, keep_end=True).read()
        return (yield from ended(reading, dialect.call_end, good=good))

    return body


def named_block(dialect: Dialect) -> Body:
    """Read a block with a name, and tags up to its end."""

    def body(reading: Reading) -> Steps[bool]:
        reading.start(dialect.call_end)
        good = yield from _named_block(reading, dialect)
        return (yield from ended(reading, dialect.call_end, good=good))

    return body


def _named_block(reading: Reading, dialect: Dialect) -> Steps[bool]:
    source = reading.source
    yield from source.white()
    if (yield from source.starts("{")):
        return (yield from Envelope(reading).read())
    name = yield from name_ahead(reading)
    yield from source.white()
    empty = reading.calls.known(name) and (yield from source.starts(dialect.call_end))
    if not name or not (empty or (yield from source.starts(dialect.parameter))):
        return False
    yield from reading.announce(name)
    return (yield from TaggedCall(reading, dialect, keep_end=True).arguments(name))


def invocations(dialect: Dialect, end: str) -> Body:
    """Read calls in tags up to the end of their section."""

    def one(reading: Reading) -> Steps[bool]:
        if not (yield from reading.source.skip_end(dialect.call)):
            return False
        return (yield from TaggedCall(reading, dialect).read())

    return section(one, end)


def section(one: Callable[[Reading], Steps[bool]], end: str) -> Body:
    """Read calls one after the other up to the end of their section.

    Args:
        one: reads a call; returns whether there was one and it was complete.
        end: closes the section.
    """

    def body(reading: Reading) -> Steps[bool]:
        source = reading.source
        count = reading.calls.count
        good = True
        while good:
            if not reading.calling:
                reading.start(end)
            yield from source.white()
            if (yield from source.reaches(end)) or (yield from source.ended()):
                break
            if reading.calling or not source.held:
                source.hold()
            good = yield from one(reading)
        if reading.calling:
            return (yield from ended(reading, end, good=good))
        if not good or reading.calls.count == count:
            return False
        yield from source.skip_end(end)
        return True

    return body


def marked_call(one: Callable[[Reading], Steps[bool]], end: str, *more: str) -> Body:
    """Read one call that a text of its own ends.

    Args:
        one: reads it; returns whether there was one and it was complete.
        end: the text.
        more: other texts before which it is over.
    """

    def body(reading: Reading) -> Steps[bool]:
        reading.start(end, *more)
        good = yield from one(reading)
        return (yield from ended(reading, end, good=good))

    return body


def sentinel_call(reading: Reading, notation: Notation) -> Steps[bool]:
    """Read Gemma's `call:name{key:value}`; return whether there was one and it was complete."""
    source = reading.source
    if not (yield from source.skip("call:")):
        return False
    name = yield from name_ahead(reading)
    yield from source.white()
    if not name or not (yield from source.starts("{")):
        return False
    yield from reading.announce(name)
    reading.begin(verbatim=False)
    return (yield from reading.stream(reading.json(notation).read()))


def named_arguments(reading: Reading, name: str, *, fence: bool = False) -> Steps[bool]:
    """Send a call whose arguments come next; return whether they were complete.

    Args:
        reading: the text and the calls.
        name: the function.
        fence: whether a fence around them is part of the format.
    """
    source = reading.source
    yield from reading.announce(name)
    fenced = yield from skip_fence(source)
    if fenced and not fence:
        reading.repairs.add(kinds.CODE_FENCE)
    if fenced:
        reading.closers = ("```", *reading.around)
    reading.begin()
    good = yield from reading.stream(read_arguments(reading, optional=True))
    if good and fenced:
        yield from skip_fence_end(source)
    return good


def name_ahead(reading: Reading) -> Wait[str]:
    """Read a name; "": there is none."""
    return reading.source.take(len((yield from reading.source.ahead(NAME, LONGEST_NAME))))
