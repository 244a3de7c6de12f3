"""Mistral, up to tokenizer v7: a list.

    [TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}}]

Later ones write names and arguments apart; both are read by the same parser, `mistral_args` differs
in what it enforces. Ids of calls in the history have exactly nine letters and digits.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats, pythonic
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import LONGEST_NAME, NAME, NewId, Reading, Steps
from core.engine.tools.envelope import Envelope
from core.engine.tools.family import Family, Format, Message
from core.engine.tools.history import with_objects, with_short_ids
from core.engine.tools.tolerant import quoted

BEGIN, ARGUMENTS, CALL_ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    return parse_answer({BEGIN: _body}, tools, new_id)


def _body(reading: Reading) -> Steps[bool]:
    source = reading.source
    reading.start(BEGIN)
    yield from source.white()
    if (yield from source.skip("[")):
        good = yield from pythonic.calls(reading, bare=False)
    elif (yield from source.starts("{")):
        good = yield from Envelope(reading).read()
    else:
        good = yield from _named(reading)
        while good and (yield from _is_named(reading)):
            good = yield from _named(reading)
    return (yield from reading.finish(good=good, loose=True))


def _is_named(reading: Reading) -> Steps[bool]:
    """Return whether one more call follows, with no marker before it."""
    source = reading.source
    yield from reading.gap()
    name = yield from source.ahead(NAME, LONGEST_NAME)
    behind = (yield from source.peek(len(name) + len(CALL_ID)))[len(name) :]
    return bool(name) and (behind.startswith(ARGUMENTS) or behind == CALL_ID)


def _named(reading: Reading) -> Steps[bool]:
    """Read `name[ARGS]{…}`, or `name{…}`, and perhaps an id in between."""
    source = reading.source
    name = yield from blocks.name_ahead(reading)
    if (yield from source.skip(CALL_ID)):
        yield from blocks.name_ahead(reading)
    yield from source.white()
    marked = yield from source.skip(ARGUMENTS)
    yield from source.white()
    if not name or not (marked or (yield from source.starts("{"))):
        return False
    return (yield from blocks.named_arguments(reading, name))


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.tag(f"{BEGIN}[", formats.calls(tools, _format, separator=", "), "]")


def _format(tool: Tool) -> Format:
    begin = f'{{"name": {quoted(tool.name)}, "arguments": '
    return formats.tag(begin, formats.arguments(tool), "}")


def prepare_history(messages: Iterable[Message]) -> list[Message]:
    """Give arguments as objects and ids as nine letters and digits."""
    return with_short_ids(with_objects(messages))


FAMILY = Family(
    name="mistral",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(BEGIN, ARGUMENTS, CALL_ID),
    prepare_history=prepare_history,
)
