"""Muse Spark.

<atem:function_calls>
<atem:invoke name="get_weather">
<atem:parameter name="city">Paris</atem:parameter>
</atem:invoke>
</atem:function_calls>
"""

from __future__ import annotations

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId
from core.engine.tools.family import Family, Format
from core.engine.tools.markup import Dialect

BEGIN, END = "<atem:function_calls>", "</atem:function_calls>"
DIALECT = Dialect(
    call="<atem:invoke name=",
    call_end="</atem:invoke>",
    parameter="<atem:parameter name=",
    parameter_end="</atem:parameter>",
    framing="newline",
)


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    return parse_answer({BEGIN: blocks.invocations(DIALECT, END)}, tools, new_id)


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.tag(f"{BEGIN}\n", formats.calls(tools, _call), END)


def _call(tool: Tool) -> Format:
    content = formats.raw_members(
        tool,
        lambda key: formats.text(f'<atem:parameter name="{key}">'),
        formats.text(f"{DIALECT.parameter_end}\n"),
        mark=DIALECT.parameter_end,
    )
    return formats.tag(f'<atem:invoke name="{tool.name}">\n', content, "</atem:invoke>\n")


FAMILY = Family(
    name="muse_spark",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(BEGIN, END),
)
