"""Earlier calls of a conversation, as chat templates expect them. Imports no arrays."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

Message = Mapping[str, Any]
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")


def with_objects(messages: Iterable[Message]) -> list[Message]:
    """Give the arguments of calls as objects, for templates that go through them one by one.

    What is not a JSON object stays as it is: nothing is repaired here.
    """
    return [_with_arguments(message, as_object) for message in messages]


def with_texts(messages: Iterable[Message]) -> list[Message]:
    """Give the arguments of calls as texts, for templates that join them with text."""
    return [_with_arguments(message, as_text) for message in messages]


def with_boxed_texts(messages: Iterable[Message]) -> list[Message]:
    """Wrap arguments that are not a JSON object in one, for templates that need objects."""
    return [_with_arguments(message, _boxed) for message in messages]


def has_texts(messages: Iterable[Message]) -> bool:
    """Return whether a call has arguments that are not a JSON object."""
    functions = (call.get("function") for message in messages for call in _calls(message))
    return any(
        isinstance(function, Mapping) and isinstance(as_object(function.get("arguments")), str)
        for function in functions
    )


def as_object(arguments: Any) -> Any:
    """Return arguments as an object; a text that is none stays as it is."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    if not arguments.strip():
        return {}
    try:
        found = json.loads(arguments)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # such as lone surrogates
        return arguments
    return found if isinstance(found, dict) else arguments


def as_text(arguments: Any) -> str:
    """Return arguments as a text."""
    if isinstance(arguments, str):
        return arguments if arguments.strip() else "{}"
    return json.dumps({} if arguments is None else arguments, ensure_ascii=False)


def _boxed(arguments: Any) -> Any:
    found = as_object(arguments)
    return {"arguments": found} if isinstance(found, str) else found


def _with_arguments(message: Message, change: Callable[[Any], Any]) -> Message:
    calls = message.get("tool_calls")
    if not isinstance(calls, list | tuple):
        return message
    return {**message, "tool_calls": [_changed(call, change) for call in calls]}


def _changed(call: Any, change: Callable[[Any], Any]) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return call
    return {**call, "function": {**function, "arguments": change(function.get("arguments"))}}


def with_short_ids(messages: Iterable[Message]) -> list[Message]:
    """Give calls ids of exactly nine letters and digits: Mistral's templates refuse others."""
    return [_with_short_ids(message) for message in messages]


def short_id(identity: Any) -> Any:
    """Return nine letters and digits for an id, always the same ones."""
    if not isinstance(identity, str) or _MISTRAL_ID.fullmatch(identity):
        return identity
    return hashlib.sha256(identity.encode(errors="replace")).hexdigest()[:9]


def _with_short_ids(message: Message) -> Message:
    changed = dict(message)
    if "tool_call_id" in changed:
        changed["tool_call_id"] = short_id(changed["tool_call_id"])
    calls = changed.get("tool_calls")
    if isinstance(calls, list | tuple):
        changed["tool_calls"] = [
            {**call, "id": short_id(call.get("id"))} if isinstance(call, Mapping) else call
            for call in calls
        ]
    return changed


def with_names(messages: Iterable[Message]) -> list[Message]:
    """Give results the names of the functions: some templates show these and no ids."""
    names: dict[Any, Any] = {}
    named = []
    for message in messages:
        names.update(_names_by_id(message))
        name = names.get(message.get("tool_call_id"))
        lacks = message.get("role") == "tool" and not message.get("name") and name
        named.append({**message, "name": name} if lacks else message)
    return named


def _names_by_id(message: Message) -> Iterator[tuple[str, str]]:
    for call in _calls(message):
        if isinstance(call.get("id"), str) and isinstance(call.get("function"), Mapping):
            yield call["id"], call["function"].get("name")


def _calls(message: Message) -> list[Mapping[str, Any]]:
    calls = message.get("tool_calls")
    found = calls if isinstance(calls, list | tuple) else ()
    return [call for call in found if isinstance(call, Mapping)]


def one_call_each(messages: Sequence[Message]) -> list[Message]:
    """Split messages with several calls into one for each, every one with its results behind it.

    For templates that show the first call of a message and lose, or refuse, the others.
    """
    split: list[Message] = []
    for position, message in enumerate(messages):
        if message.get("role") == "tool" and _was_placed(messages, position):
            continue
        calls = _calls(message)
        if len(calls) < 2:
            split.append(message)
            continue
        after = list(takewhile(lambda one: one.get("role") == "tool", messages[position + 1 :]))
        for number, call in enumerate(calls):
            own = [one for one in after if one.get("tool_call_id") == call.get("id")]
            said = {"role": message.get("role"), "content": ""} if number else message
            split += [{**said, "tool_calls": [call]}, *own]
    return split


def _was_placed(messages: Sequence[Message], position: int) -> bool:
    """Tell whether a result stands behind one of several calls of the answer before it."""
    before = position - 1
    while before >= 0 and messages[before].get("role") == "tool":
        before -= 1
    calls = _calls(messages[before]) if before >= 0 else []
    return len(calls) > 1 and any(
        call.get("id") == messages[position].get("tool_call_id") for call in calls
    )
