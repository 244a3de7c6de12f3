"""Hermes, and all who write OpenAI's JSON between `<tool_call>` and `</tool_call>`.

    <tool_call>
    {"name": "get_weather", "arguments": {"city": "Paris"}}
    </tool_call>

So do Qwen 2.5, Qwen 3 and EXAONE.
"""

from __future__ import annotations

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId
from core.engine.tools.family import Family, Format
from core.engine.tools.tolerant import quoted


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    return parse_answer({blocks.TOOL_CALL: blocks.tool_call}, tools, new_id)


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.calls(tools, _call, separator="\n")


def _call(tool: Tool) -> Format:
    begin = f'<tool_call>\n{{"name": {quoted(tool.name)}, "arguments": '
    return formats.tag(begin, formats.arguments(tool), "}\n</tool_call>")


FAMILY = Family(
    name="hermes",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(blocks.TOOL_CALL, blocks.TOOL_CALL_END),
)
