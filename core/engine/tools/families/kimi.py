"""Kimi K2.

    <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>
    {"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>

in one line. The model numbers its calls in their ids; ours go out instead.
"""

from __future__ import annotations

import re

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId, Reading, Steps
from core.engine.tools.family import Family, Format

BEGIN, END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, CALL_END = "<|tool_call_begin|>", "<|tool_call_end|>"
ARGUMENTS = "<|tool_call_argument_begin|>"

_NUMBER = re.compile(r":\d+$")


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    return parse_answer({BEGIN: blocks.section(_call, END), CALL: _lone_call}, tools, new_id)


def _call(reading: Reading) -> Steps[bool | None]:
    if not (yield from reading.source.skip(CALL)):
        return None
    return (yield from _lone_call(reading))


def _lone_call(reading: Reading) -> Steps[bool]:
    source = reading.source
    yield from source.white()
    identity = yield from blocks.name_ahead(reading)
    yield from source.white()
    if not identity or not (yield from source.skip(ARGUMENTS)):
        return False
    name = _NUMBER.sub("", identity).removeprefix("functions.")
    good = yield from blocks.named_arguments(reading, name)
    return (yield from blocks.mended(reading, CALL_END)) or good


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.tag(BEGIN, formats.calls(tools, _format), END)


def _format(tool: Tool) -> Format:
    content = formats.sequence(
        formats.regex(r"\d+"), formats.text(ARGUMENTS), formats.arguments(tool)
    )
    return formats.tag(f"{CALL}functions.{tool.name}:", content, CALL_END)


FAMILY = Family(
    name="kimi",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(BEGIN, END, CALL, CALL_END, ARGUMENTS),
)
