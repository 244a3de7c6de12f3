"""Gemma 4.

    <|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>

Keys are bare, strings stand between sentinels and have no escapes.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId, Reading, Steps
from core.engine.tools.family import Family, Format, Message
from core.engine.tools.history import with_names, with_objects
from core.engine.tools.tolerant import Notation

BEGIN, END, QUOTE = "<|tool_call>", "<tool_call|>", '<|"|>'
_NOTATION = Notation(delimiters=(QUOTE,), bare_text=True)


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    return parse_answer({BEGIN: blocks.section(_call, END)}, tools, new_id)


def _call(reading: Reading) -> Steps[bool]:
    return (yield from blocks.sentinel_call(reading, _NOTATION))


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.calls(tools, _format)


def _format(tool: Tool) -> Format:
    content = formats.arguments(tool, excludes=(BEGIN, END), quote=QUOTE)
    return formats.tag(f"{BEGIN}call:{tool.name}", content, END)


def prepare_history(messages: Iterable[Message]) -> list[Message]:
    """Give arguments as objects and results the names of their functions."""
    return with_names(with_objects(messages))


FAMILY = Family(
    name="gemma",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(BEGIN, END, QUOTE),
    prepare_history=prepare_history,
)
