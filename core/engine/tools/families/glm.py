"""GLM 4.5 to 5, Laguna.

    <tool_call>get_weather
    <arg_key>city</arg_key>
    <arg_value>Paris</arg_value>
    </tool_call>

Values are raw text, all of it between the tags.
"""

from __future__ import annotations

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId
from core.engine.tools.family import Family, Format


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    return parse_answer({blocks.TOOL_CALL: blocks.tool_call}, tools, new_id)


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.calls(tools, _call, separator="\n")


def _call(tool: Tool) -> Format:
    line_end = formats.regex("\n?")
    content = formats.raw_members(
        tool,
        lambda key: formats.sequence(
            formats.text(f"{blocks.GLM.parameter}{key}{blocks.GLM.key_end}"),
            line_end,
            formats.text(blocks.GLM.value or ""),
        ),
        formats.sequence(formats.text(blocks.GLM.parameter_end), line_end),
        mark=blocks.GLM.parameter_end,
    )
    return formats.tag(
        f"<tool_call>{tool.name}", formats.sequence(line_end, content), "</tool_call>"
    )


FAMILY = Family(
    name="glm",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(
        blocks.TOOL_CALL,
        blocks.TOOL_CALL_END,
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
    ),
)
