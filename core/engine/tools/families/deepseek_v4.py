"""DeepSeek V4: the tags of V3.2 within `tool_calls`."""

from __future__ import annotations

from core.engine.request import ToolUse
from core.engine.tools.families import deepseek_dsml
from core.engine.tools.family import Family, Format
from core.engine.tools.history import with_texts


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return deepseek_dsml.block(tools, "tool_calls")


FAMILY = Family(
    name="deepseek_v4",
    make_parser=deepseek_dsml.make_parser,
    call_format=call_format,
    special_tokens=deepseek_dsml.FAMILY.special_tokens,
    prepare_history=with_texts,
)
