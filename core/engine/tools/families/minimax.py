"""MiniMax M2.

<minimax:tool_call>
<invoke name="get_weather">
<parameter name="city">Paris</parameter>
</invoke>
</minimax:tool_call>
"""

from __future__ import annotations

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId
from core.engine.tools.family import Family, Format
from core.engine.tools.markup import Dialect

BEGIN, END = "<minimax:tool_call>", "</minimax:tool_call>"
DIALECT = Dialect(
    call="<invoke name=",
    call_end="</invoke>",
    parameter="<parameter name=",
    parameter_end="</parameter>",
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
        lambda key: formats.text(f'<parameter name="{key}">'),
        formats.text(f"{DIALECT.parameter_end}\n"),
        # A line break at the beginning would be taken for one that frames the value.
        lambda key, value: formats.raw_value(
            tool, key, value, (DIALECT.parameter_end,), avoid=[f"\\n{formats.ANY}*"]
        ),
    )
    return formats.tag(f'<invoke name="{tool.name}">\n', content, "</invoke>\n")


FAMILY = Family(
    name="minimax",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(BEGIN, END),
)
