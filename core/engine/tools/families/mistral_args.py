"""Mistral from tokenizer v11 on: names and arguments apart.

[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}
"""

from __future__ import annotations

from core.engine.request import Tool, ToolUse
from core.engine.tools import formats
from core.engine.tools.families import mistral
from core.engine.tools.family import Family, Format


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.calls(tools, _format)


def _format(tool: Tool) -> Format:
    begin = f"{mistral.BEGIN}{tool.name}{mistral.ARGUMENTS}"
    return formats.tag(begin, formats.arguments(tool), "")


FAMILY = Family(
    name="mistral_args",
    make_parser=mistral.make_parser,
    call_format=call_format,
    special_tokens=mistral.FAMILY.special_tokens,
    prepare_history=mistral.prepare_history,
)
