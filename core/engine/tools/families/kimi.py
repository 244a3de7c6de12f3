"""Kimi K2.

    <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>
    {"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>

in one line. The id names the function and numbers the call; ours go out instead, and come back as
the model's in the history, because its template shows nothing but ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from core.engine.parsing import AnswerParser
from core.engine.request import Tool, ToolUse
from core.engine.tools import blocks, formats
from core.engine.tools.answer import parse_answer
from core.engine.tools.calls import NewId, Reading, Steps
from core.engine.tools.family import Family, Format, Message
from core.engine.tools.history import with_objects

BEGIN, END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, CALL_END = "<|tool_call_begin|>", "<|tool_call_end|>"
ARGUMENTS = "<|tool_call_argument_begin|>"

_NUMBER = re.compile(r":\d+$")


def make_parser(tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser for one answer."""
    return parse_answer({BEGIN: blocks.section(_call, END), CALL: _lone_call}, tools, new_id)


def _call(reading: Reading) -> Steps[bool]:
    return (yield from reading.source.skip(CALL)) and (yield from _lone_call(reading))


def _lone_call(reading: Reading) -> Steps[bool]:
    return (yield from blocks.marked_call(_named_call, CALL_END, CALL, END)(reading))


def _named_call(reading: Reading) -> Steps[bool]:
    source = reading.source
    yield from source.white()
    identity = yield from blocks.name_ahead(reading)
    yield from source.white()
    if not identity or not (yield from source.skip(ARGUMENTS)):
        return False
    name = _NUMBER.sub("", identity).removeprefix("functions.")
    return (yield from blocks.named_arguments(reading, name))


def call_format(tools: ToolUse) -> Format:
    """Return what stands for the calls."""
    return formats.tag(BEGIN, formats.calls(tools, _format), END)


def _format(tool: Tool) -> Format:
    content = formats.sequence(
        formats.regex(r"\d+"), formats.text(ARGUMENTS), formats.arguments(tool)
    )
    return formats.tag(f"{CALL}functions.{tool.name}:", content, CALL_END)


def prepare_history(messages: Iterable[Message]) -> list[Message]:
    """Give arguments as objects, and calls the ids that the model would have given them."""
    ids: dict[Any, str] = {}
    return [_with_ids(message, ids) for message in with_objects(messages)]


def _with_ids(message: Message, ids: dict[Any, str]) -> Message:
    """Rewrite the ids of a message; `ids` holds the ones that were rewritten so far."""
    changed = dict(message)
    if isinstance(changed.get("tool_calls"), list):
        changed["tool_calls"] = [_with_id(call, ids) for call in changed["tool_calls"]]
    identity = changed.get("tool_call_id")
    if isinstance(identity, str) and identity in ids:
        changed["tool_call_id"] = ids[identity]
    return changed


def _with_id(call: Any, ids: dict[Any, str]) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        return call
    identity = f"functions.{function['name']}:{len(ids)}"
    ids[call.get("id") if isinstance(call.get("id"), str) else identity] = identity
    return {**call, "id": identity}


FAMILY = Family(
    name="kimi",
    make_parser=make_parser,
    call_format=call_format,
    special_tokens=(BEGIN, END, CALL, CALL_END, ARGUMENTS),
    prepare_history=prepare_history,
)
