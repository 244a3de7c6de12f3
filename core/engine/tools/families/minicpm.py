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
_NOT_PLAIN = (
    rf"{formats.ANY}*[<&\n]{formats.ANY}*",
    rf"{formats.SPACE}{formats.ANY}*",
    rf"{formats.ANY}*{formats.SPACE}",
)
"""Texts that are wrapped."""
_NOT_WRAPPED = (rf"{formats.ANY}*\]\]>{formats.ANY}*", rf"{formats.ANY}*\]")
"""Texts that would end what wraps them."""


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    return parse_answer({DIALECT.call: blocks.tagged(DIALECT)}, tools, new_id)


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.calls(tools, _call)


def _call(tool: Tool) -> Format:
    content = formats.raw_members(
        tool,
        lambda key: formats.text(f'<param name="{key}">'),
        formats.text(DIALECT.parameter_end),
        lambda key, value: _value(tool, key, value),
    )
    return formats.tag(f'<function name="{tool.name}">', content, "</function>")


def _value(tool: Tool, key: str, value: Any) -> Format:
    plain = formats.raw_value(tool, key, value, (DIALECT.parameter_end,), _NOT_PLAIN)
    if "string" not in kinds(value, tool.parameters):
        return plain
    wrapped = formats.raw_value(tool, key, value, (), _NOT_WRAPPED)
    return formats.either([plain, formats.tag("<![CDATA[", wrapped, "]]>")])


FAMILY = Family(
    name="minicpm",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=("<function", "</function>", "<param", "</param>"),
)
