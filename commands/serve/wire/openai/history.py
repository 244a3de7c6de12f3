"""The messages of a chat request, checked and put into the form that chat templates read.

Knows the order of a tool round trip; knows nothing of a model's template.
"""

from __future__ import annotations

from typing import Any

import msgspec

from commands.serve.wire.openai.nesting import check_nesting
from commands.serve.wire.openai.schema import Message, PastToolCall, TextPart
from commands.serve.wire.openai.sentences import decapitalized, quoted
from core.errors import BadRequest

_ROLES = ("system", "developer", "user", "assistant", "tool")
_MEDIA = ("image_url", "image", "input_audio", "audio", "audio_url", "video_url", "video")


def decode_messages(raw: list[Any]) -> tuple[dict[str, Any], ...]:
    """Check messages and return them with text contents and template-ready tool calls.

    Raises:
        BadRequest: naming the message and the field at fault.
    """
    called: set[str] = set()
    history = []
    for position, one in enumerate(raw):
        place = f"messages[{position}]"
        message = _decode(one, place)
        if message.role == "tool":
            _check_answers_a_call(message, called, place)
        called.update(call.id for call in message.tool_calls or ())
        history.append(_for_template(message))
    return tuple(history)


def _decode(raw: Any, place: str) -> Message:
    if not isinstance(raw, dict):
        raise BadRequest(f"{place} must be an object with a role and a content.", field="messages")
    role = raw.get("role")
    if role not in _ROLES:
        raise BadRequest(f"{place}.role must be one of {', '.join(_ROLES)}.", field="messages")
    _check_content(raw, place)
    try:
        return msgspec.convert(raw, Message)
    except msgspec.ValidationError as problem:
        reason, _, inner = str(problem).partition(" - at `$")
        where = place + inner.rstrip("`")
        raise BadRequest(
            f"{where} is not valid: {decapitalized(reason)}.", field="messages"
        ) from None
    except RecursionError:
        raise BadRequest(f"{place} is nested too deeply.", field="messages") from None


def _check_content(raw: dict[str, Any], place: str) -> None:
    content = raw.get("content")
    if content is None and raw["role"] != "assistant":
        raise BadRequest(f"{place}.content is required.", field="messages")
    if content is not None and not isinstance(content, str | list):
        raise BadRequest(
            f"{place}.content must be a text or a list of content parts.", field="messages"
        )
    for number, part in enumerate(content if isinstance(content, list) else ()):
        _check_part(part, f"{place}.content[{number}]")


def _check_part(part: Any, place: str) -> None:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise BadRequest(f"{place} must be an object with a type.", field="messages")
    kind = part["type"]
    if kind in _MEDIA:
        raise BadRequest(
            f"{place}: {kind} parts are not supported yet, send text only.", field="messages"
        )
    if kind != "text":
        raise BadRequest(f"{place} has the unknown type {quoted(kind)}.", field="messages")
    if not isinstance(part.get("text"), str):
        raise BadRequest(f"{place}.text must be a text.", field="messages")


def _check_answers_a_call(message: Message, called: set[str], place: str) -> None:
    if message.tool_call_id is None:
        raise BadRequest(f"{place}.tool_call_id is required in a tool message.", field="messages")
    if message.tool_call_id not in called:
        raise BadRequest(
            f"{place}.tool_call_id {quoted(message.tool_call_id)} answers no tool call of an "
            "assistant message before it.",
            field="messages",
        )


def _for_template(message: Message) -> dict[str, Any]:
    ready: dict[str, Any] = {
        "role": "system" if message.role == "developer" else message.role,
        "content": _text(message.content),
    }
    # An explicit reasoning_content wins over its alias, even when it is empty.
    reasoning = message.reasoning_content
    reasoning = message.reasoning if reasoning is None else reasoning
    if reasoning is not None:
        ready["reasoning_content"] = reasoning
    if message.name is not None:
        ready["name"] = message.name
    if message.tool_call_id is not None:
        ready["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        ready["tool_calls"] = [_past_call(call) for call in message.tool_calls]
    return ready


def _text(content: str | list[TextPart] | None) -> str:
    if isinstance(content, list):
        return "".join(part.text for part in content)
    return content or ""  # templates add texts up and stumble over None


def _past_call(call: PastToolCall) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": _arguments(call.function.arguments)}
    return {"id": call.id, "type": call.type, "function": function}


def _arguments(text: str) -> Any:
    """Return arguments as the object that templates turn into JSON again, else as they came."""
    try:
        value = msgspec.json.decode(text)
        check_nesting(value, "messages")
    except (msgspec.DecodeError, RecursionError, BadRequest):
        return text
    return value if isinstance(value, dict) else text
