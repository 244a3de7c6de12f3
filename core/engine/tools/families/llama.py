"""Llama 3.1 to 4: JSON or Python at the beginning of a line, with or without a marker before it.

    {"name": "get_weather", "parameters": {"city": "Paris"}}
    [get_weather(city="Paris", days=3)]

Markers are `<|python_tag|>`, and `<|python_start|>` with `<|python_end|>`. Without one, only a
call of a known tool is a call: other JSON is an answer.
"""

from __future__ import annotations

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import formats, pythonic
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId, Reading, Steps
from core.engine.tools.envelope import Envelope
from core.engine.tools.family import Family, Format
from core.engine.tools.tolerant import quoted

TAG, START, END = "<|python_tag|>", "<|python_start|>", "<|python_end|>"


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    return parse_answer(
        {TAG: _tagged, START: _between, "{": _object, "[": pythonic.bare_list}, tools, new_id
    )


def _tagged(reading: Reading) -> Steps[bool]:
    reading.start()
    good = yield from _calls(reading)
    return (yield from reading.finish(good=good, loose=True))


def _between(reading: Reading) -> Steps[bool]:
    reading.start(END)
    good = yield from _calls(reading)
    done = yield from reading.finish(good=good, loose=True)
    if done:
        yield from reading.source.skip_end(END)
    return done


def _object(reading: Reading) -> Steps[bool]:
    reading.start()
    good = yield from _objects(reading)
    return (yield from reading.finish(good=good, loose=True))


def _calls(reading: Reading) -> Steps[bool]:
    source = reading.source
    yield from source.white()
    if (yield from source.skip("[")):
        return (yield from pythonic.calls(reading, bare=True))
    if (yield from source.skip("{")):
        return (yield from _objects(reading))
    return (yield from pythonic.call(reading))


def _objects(reading: Reading) -> Steps[bool]:
    """Read an object from behind its brace, and more of them after semicolons."""
    source = reading.source
    while (yield from Envelope(reading, bare=True, opened=True).read()):
        yield from reading.gap()
        if not (yield from source.skip(";")):
            return True
        yield from source.white()
        source.hold()
        if not (yield from source.skip("{")):
            return False
    return False


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.calls(tools, _format, separator="; ")


def _format(tool: Tool) -> Format:
    begin = f'{{"name": {quoted(tool.name)}, "parameters": '
    return formats.tag(begin, formats.arguments(tool), "}")


FAMILY = Family(
    name="llama", make_parser=make_parser, call_format=call_format, special_tokens=(TAG, START, END)
)
