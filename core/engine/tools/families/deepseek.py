# ruff: noqa: RUF001, RUF002 - DeepSeek's markers have a wide bar
"""DeepSeek V3.1: the name, a separator, the arguments.

    <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>
    {"city": "Paris"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>

in one line. V3 and R1 write `function`, the separator, the name and a fence of JSON; both are read
by the same parser, `deepseek_v3` differs in what it enforces.
"""

from __future__ import annotations

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId, Reading, Steps
from core.engine.tools.family import Family, Format
from core.engine.tools.history import with_texts

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"
SPECIAL_TOKENS = (BEGIN, END, CALL, CALL_END, SEPARATOR)


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    return parse_answer({BEGIN: blocks.section(_call, END), CALL: _lone_call}, tools, new_id)


def _call(reading: Reading) -> Steps[bool]:
    return (yield from reading.source.skip(CALL)) and (yield from _lone_call(reading))


def _lone_call(reading: Reading) -> Steps[bool]:
    return (yield from blocks.marked_call(_named_call, CALL_END, CALL, END)(reading))


def _named_call(reading: Reading) -> Steps[bool]:
    source = reading.source
    yield from source.white()
    name = yield from blocks.name_ahead(reading)
    yield from source.white()
    if not name or not (yield from source.skip(SEPARATOR)):
        return False
    yield from source.white()
    if name == "function":
        name = (yield from blocks.name_ahead(reading)) or name
    return (yield from blocks.named_arguments(reading, name, fence=True))


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.tag(BEGIN, formats.calls(tools, _format), END)


def _format(tool: Tool) -> Format:
    return formats.tag(f"{CALL}{tool.name}{SEPARATOR}", formats.arguments(tool), CALL_END)


FAMILY = Family(
    name="deepseek",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=SPECIAL_TOKENS,
    prepare_history=with_texts,
)
