"""Qwen 3 Coder, Qwen 3.5 and others with its tags.

    <tool_call>
    <function=get_weather>
    <parameter=city>
    Paris
    </parameter>
    </function>
    </tool_call>

Values are raw text: entities, indentation and escapes stay; one line break at either end is not
part of them. A call without its outer tag is read too, if the tool is known.
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
    bodies = {blocks.TOOL_CALL: blocks.tool_call, blocks.QWEN.call: blocks.qwen_function}
    return parse_answer(bodies, tools, new_id)


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.calls(tools, _call, separator="\n")


def _call(tool: Tool) -> Format:
    begin = f"<tool_call>\n<function={tool.name}>\n"
    return formats.tag(
        begin,
        formats.raw_members(
            tool,
            lambda key: formats.text(f"{blocks.QWEN.parameter}{key}>\n"),
            formats.text(f"\n{blocks.QWEN.parameter_end}\n"),
            mark=blocks.QWEN.parameter_end,
        ),
        "</function>\n</tool_call>",
    )


FAMILY = Family(
    name="qwen",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(blocks.TOOL_CALL, blocks.TOOL_CALL_END),
)
