"""FunctionGemma.

<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3}<end_function_call>
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId, Reading, Steps
from core.engine.tools.family import Family, Format, Message
from core.engine.tools.history import with_names, with_objects
from core.engine.tools.schema import kinds
from core.engine.tools.tolerant import Notation

BEGIN, END, QUOTE = "<start_function_call>", "<end_function_call>", "<escape>"
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
    content = formats.listed(
        tool,
        lambda key, value: formats.sequence(formats.text(f"{key}:"), _value(tool, value)),
        free=formats.sequence(formats.regex(r"[a-zA-Z_]\w{0,59}:"), formats.schema({})),
        separator=",",
    )
    return formats.tag(f"{BEGIN}call:{tool.name}{{", content, f"}}{END}")


def _value(tool: Tool, value: Any) -> Format:
    """Return what stands for a value: text between marks for strings, JSON for all else."""
    if kinds(value, tool.parameters) != {"string"}:
        return formats.within(tool, value)
    return formats.tag(QUOTE, formats.plain_text(tool, value, (QUOTE,)), QUOTE)


def prepare_history(messages: Iterable[Message]) -> list[Message]:
    """Give arguments as objects and results the names of their functions."""
    return with_names(with_objects(messages))


FAMILY = Family(
    name="function_gemma",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(BEGIN, END, QUOTE),
    prepare_history=prepare_history,
)
