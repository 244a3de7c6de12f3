"""MiniCPM 5.

    <function name="get_weather"><param name="city">Paris</param></function>

There is no outer tag. Values that hold markup or line breaks are wrapped in CDATA.
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
    call="<function name=",
    call_end="</function>",
    parameter="<param name=",
    parameter_end="</param>",
    framing="space",
    cdata=True,
)
_PLAIN = r"[^<&\s]([^<&\n]*[^<&\s])?"
_CDATA = r"<!\[CDATA\[([^\]]|\][^\]])*\]\]>"


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    return parse_answer({DIALECT.call: blocks.tagged(DIALECT)}, tools, new_id)


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.calls(tools, _call)


def _call(tool: Tool) -> Format:
    content = formats.raw_members(
        tool, lambda key: f'<param name="{key}">', DIALECT.parameter_end, f"({_PLAIN}|{_CDATA})?"
    )
    return formats.tag(f'<function name="{tool.name}">', content, "</function>")


FAMILY = Family(
    name="minicpm",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=("<function", "</function>", "<param", "</param>"),
)
