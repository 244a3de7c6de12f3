"""LongCat: GLM's tags under names of its own.

<longcat_tool_call>get_weather
<longcat_arg_key>city</longcat_arg_key>
<longcat_arg_value>Paris</longcat_arg_value>
</longcat_tool_call>
"""

from __future__ import annotations

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId
from core.engine.tools.family import Family, Format
from core.engine.tools.markup import Dialect

DIALECT = Dialect(
    call="<longcat_tool_call>",
    call_end="</longcat_tool_call>",
    parameter="<longcat_arg_key>",
    key_end="</longcat_arg_key>",
    value="<longcat_arg_value>",
    parameter_end="</longcat_arg_value>",
)


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    return parse_answer({DIALECT.call: blocks.named_block(DIALECT)}, tools, new_id)


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.calls(tools, _call, separator="\n")


def _call(tool: Tool) -> Format:
    content = formats.raw_members(
        tool,
        lambda key: formats.text(f"{DIALECT.parameter}{key}{DIALECT.key_end}\n{DIALECT.value}"),
        formats.text(f"{DIALECT.parameter_end}\n"),
        mark=DIALECT.parameter_end,
    )
    return formats.tag(f"{DIALECT.call}{tool.name}\n", content, DIALECT.call_end)


FAMILY = Family(
    name="longcat",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(
        DIALECT.call,
        DIALECT.call_end,
        "<longcat_arg_key>",
        "</longcat_arg_key>",
        "<longcat_arg_value>",
        "</longcat_arg_value>",
    ),
)
