"""LFM 2 and others that call as Python does, between markers.

<|tool_call_start|>[get_weather(city="Paris", days=3)]<|tool_call_end|>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats, pythonic
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId, Reading, Steps
from core.engine.tools.family import Family, Format

BEGIN, END = "<|tool_call_start|>", "<|tool_call_end|>"


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    bodies = {BEGIN: _body, "[": pythonic.bare_list}
    return parse_answer(bodies, tools, new_id)


def _body(reading: Reading) -> Steps[bool]:
    source = reading.source
    reading.start(END)
    yield from source.white()
    if not (yield from source.skip("[")):
        return False
    good = yield from pythonic.calls(reading, bare=False)
    return (yield from blocks.ended(reading, END, good=good))


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.tag(f"{BEGIN}[", formats.calls(tools, _format, separator=", "), f"]{END}")


def _format(tool: Tool) -> Format:
    def one(key: str, value: Any) -> Format:
        return formats.sequence(formats.text(f"{key}="), formats.within(tool, value))

    free = formats.sequence(formats.regex(r"[a-zA-Z_]\w{0,59}="), formats.schema({}))
    content = formats.listed(tool, one, free, separator=", ")
    return formats.tag(f"{tool.name}(", content, ")")


def write_calls(calls: Sequence[Mapping[str, Any]]) -> str:
    """Write calls as LFM 2 does: its template shows them only within contents."""
    return f"{BEGIN}[{', '.join(_written(call) for call in calls)}]{END}"


def _written(call: Mapping[str, Any]) -> str:
    arguments = call.get("arguments")
    if isinstance(arguments, str):  # not JSON: as it was written
        return f"{call['name']}({arguments})"
    named = arguments.items() if isinstance(arguments, Mapping) else ()
    return (
        f"{call['name']}({', '.join(f'{key}={pythonic.literal(value)}' for key, value in named)})"
    )


FAMILY = Family(
    name="pythonic",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(BEGIN, END),
    write_calls=write_calls,
)
