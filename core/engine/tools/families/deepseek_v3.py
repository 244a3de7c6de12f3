# ruff: noqa: RUF002 - DeepSeek's markers have a wide bar
"""DeepSeek V3 and R1: the arguments stand in a fence.

<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather
```json
{"city": "Paris"}
```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
"""

from __future__ import annotations

from core.engine.request import Tool, ToolUse
from core.engine.tools import formats
from core.engine.tools.families import deepseek
from core.engine.tools.family import Family, Format
from core.engine.tools.history import with_texts


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.tag(deepseek.BEGIN, formats.calls(tools, _format, separator="\n"), deepseek.END)


def _format(tool: Tool) -> Format:
    begin = f"{deepseek.CALL}function{deepseek.SEPARATOR}{tool.name}\n```json\n"
    return formats.tag(begin, formats.arguments(tool), f"\n```{deepseek.CALL_END}")


FAMILY = Family(
    name="deepseek_v3",
    make_parser=deepseek.make_parser,
    call_format=call_format,
    special_tokens=deepseek.SPECIAL_TOKENS,
    prepare_history=with_texts,
)
