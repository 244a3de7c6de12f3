"""The messages of a chat request, checked and put into the form that chat templates read.

Knows the order of a tool round trip; knows nothing of a model's template.
"""

from __future__ import annotations

from typing import Any

import msgspec

from commands.serve.wire.openai.nesting import check_nesting
from commands.serve.wire.openai.pairing import Pairing
from commands.serve.wire.openai.schema import (
    CalledFunction,
    Message,
    PastToolCall,
    RefusalPart,
    TextPart,
    ThinkingPart,
)
from commands.serve.wire.openai.sentences import decapitalized, quoted
from core.errors import BadRequest

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_RESULTS = ("tool", "function")
_MEDIA = ("image_url", "image", "input_audio", "audio", "audio_url", "video_url", "video")
_ASSISTANTS_PARTS = ("refusal", "thinking")
_TEMPLATE_ROLES = {"developer": "system", "function": "tool"}


def decode_messages(raw: list[Any]) -> tuple[dict[str, Any], ...]:
    """Check messages and return them with string contents and template-ready tool calls.

    Calls without an id get one, and results without one that of the call which they answer.

    Raises:
        BadRequest: naming the message and the field at fault.
    """
    pairing = Pairing()
    history = []
    for position, one in enumerate(raw):
        place = f"messages[{position}]"
        message = _decode(one, place)
        ready = _for_template(message)
        if calls := _past_calls(message, pairing, position):
            ready["tool_calls"] = calls
        if message.role in _RESULTS:
            ready["tool_call_id"] = _answered_call(message, pairing, place)
        history.append(ready)
    return tuple(history)


def _decode(raw: Any, place: str) -> Message:
    if not isinstance(raw, dict):
        raise BadRequest(f"{place} must be an object with a role and a content.", field="messages")
    role = raw.get("role")
    if role not in _ROLES:
        raise BadRequest(f"{place}.role must be one of {', '.join(_ROLES)}.", field="messages")
    _check_content(raw, place)
    try:
        message = msgspec.convert(raw, Message)
    except msgspec.ValidationError as problem:
        reason, _, inner = str(problem).partition(" - at `$")
        where = place + inner.rstrip("`")
        raise BadRequest(
            f"{where} is not valid: {decapitalized(reason)}.", field="messages"
        ) from None
    except RecursionError:
        raise BadRequest(f"{place} is nested too deeply.", field="messages") from None
    _check_calls(message, place)
    return message


def _check_content(raw: dict[str, Any], place: str) -> None:
    content, role = raw.get("content"), raw["role"]
    if content is None and role not in ("assistant", *_RESULTS):
        raise BadRequest(f"{place}.content is required.", field="messages")
    if content is not None and not isinstance(content, str | list):
        raise BadRequest(
            f"{place}.content must be a text or a list of content parts.", field="messages"
        )
    for number, part in enumerate(content if isinstance(content, list) else ()):
        _check_part(part, role, f"{place}.content[{number}]")


def _check_part(part: Any, role: str, place: str) -> None:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise BadRequest(f"{place} must be an object with a type.", field="messages")
    kind = part["type"]
    if kind in _MEDIA:
        raise BadRequest(
            f"{place}: {kind} parts are not supported yet, send text only.", field="messages"
        )
    if kind != "text" and kind not in _ASSISTANTS_PARTS:
        raise BadRequest(f"{place} has the unknown type {quoted(kind)}.", field="messages")
    if kind in _ASSISTANTS_PARTS and role != "assistant":
        raise BadRequest(
            f"{place}: only assistant messages can hold {kind} parts.", field="messages"
        )
    if kind != "thinking" and not isinstance(part.get(kind), str):
        raise BadRequest(f"{place}.{kind} must be a text.", field="messages")


def _check_calls(message: Message, place: str) -> None:
    for number, call in enumerate(message.tool_calls or ()):
        if (call.custom if call.type == "custom" else call.function) is None:
            raise BadRequest(
                f"{place}.tool_calls[{number}].{call.type} is required.", field="messages"
            )


def _answered_call(message: Message, pairing: Pairing, place: str) -> str:
    """Return the id of the call that a result answers.

    Raises:
        BadRequest: there is none.
    """
    found = pairing.result(message.tool_call_id, message.name)
    if found is not None:
        return found
    if message.tool_call_id:
        raise BadRequest(
            f"{place}.tool_call_id {quoted(message.tool_call_id)} answers no tool call of an "
            "assistant message before it.",
            field="messages",
        )
    raise BadRequest(
        f"{place}.tool_call_id is required: no tool call before it is without a result.",
        field="messages",
    )


def _for_template(message: Message) -> dict[str, Any]:
    ready: dict[str, Any] = {
        "role": _TEMPLATE_ROLES.get(message.role, message.role),
        "content": _text(message.content) or message.refusal or "",
    }
    reasoning = _reasoning(message)
    if reasoning is not None:
        ready["reasoning_content"] = reasoning
    if message.name is not None:
        ready["name"] = message.name
    return ready


def _text(content: str | list[TextPart | RefusalPart | ThinkingPart] | None) -> str:
    if isinstance(content, list):
        return "".join(_part_text(part) for part in content)
    return content or ""  # templates add texts up and stumble over None


def _part_text(part: TextPart | RefusalPart | ThinkingPart) -> str:
    if isinstance(part, TextPart):
        return part.text
    return part.refusal if isinstance(part, RefusalPart) else ""


def _reasoning(message: Message) -> str | None:
    """Return the reasoning: an explicit `reasoning_content` wins, even when it is empty."""
    for explicit in (message.reasoning_content, message.reasoning):
        if explicit is not None:
            return explicit
    parts = message.content if isinstance(message.content, list) else ()
    thoughts = [part.thinking for part in parts if isinstance(part, ThinkingPart)]
    return "".join(map(_thought, thoughts)) if thoughts else None


def _thought(thinking: str | list[TextPart]) -> str:
    return thinking if isinstance(thinking, str) else "".join(part.text for part in thinking)


def _past_calls(message: Message, pairing: Pairing, position: int) -> list[dict[str, Any]]:
    """Return a message's calls; `function_call` is how they were sent before there were several."""
    calls = message.tool_calls or []
    if message.function_call and not calls:
        calls = [PastToolCall(function=message.function_call)]
    ready = []
    for number, call in enumerate(calls):
        function = _function(call)
        name = function["name"]
        identity = pairing.call(call.id, name, otherwise=f"call_{position}_{number}")
        ready.append({"id": identity, "type": "function", "function": function})
    return ready


def _function(call: PastToolCall) -> dict[str, Any]:
    """Return what a call called; a custom tool's input is its only argument."""
    if call.type == "custom" and call.custom:
        return {"name": call.custom.name, "arguments": {"input": call.custom.input}}
    assert call.function is not None
    return {"name": call.function.name, "arguments": _arguments(call.function)}


def _arguments(function: CalledFunction) -> Any:
    """Return arguments as the object that templates turn into JSON again, else as they came."""
    given = function.arguments
    if not isinstance(given, str):
        check_nesting(given, "messages")
        return {} if given is None else given
    try:
        value = msgspec.json.decode(given)
        check_nesting(value, "messages")
    except (msgspec.DecodeError, RecursionError, BadRequest):
        return given
    return value if isinstance(value, dict) else given
