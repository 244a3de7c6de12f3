"""MiniCPM 5.

    <function name="get_weather"><param name="city">Paris</param></function>

There is no outer tag. Values that hold markup or line breaks are wrapped in CDATA.
"""

from __future__ import annotations

from typing import Any

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId
from core.engine.tools.family import Family, Format
from core.engine.tools.markup import Dialect
from core.engine.tools.schema import kinds

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
    content = formats.members(
        tool.parameters,
        lambda key, value: formats.tag(f'<param name="{key}">', _value(tool, value), "</param>"),
        free=formats.sequence(
            formats.regex(r'<param name="\w+">'),
            formats.schema(True, excludes=(DIALECT.parameter_end,)),
            formats.text(DIALECT.parameter_end),
        ),
    )
    return formats.tag(f'<function name="{tool.name}">', content, "</function>")


def _value(tool: Tool, value: Any) -> Format:
    """Return what stands for a value: raw text for strings, JSON for all else."""
    if kinds(value, tool.parameters) != {"string"}:
        return formats.within(tool.parameters, value, excludes=(DIALECT.parameter_end,))
    return formats.plain_text(tool.parameters, value, f"({_PLAIN}|{_CDATA})?")


FAMILY = Family(
    name="minicpm",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=("<function", "</function>", "<param", "</param>"),
)
