"""What a row teaches: a conversation, a prompt with its completion, a text, or a preference.

The formats are told from the keys of a row, as mlx-lm and TRL name them. Pure Python.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from core.fields import shown

Message = dict[str, Any]

FORMATS = ("messages", "prompt-completion", "text", "dpo")
"""As `POST /api/finetune/inspect-dataset` names them."""

_ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """Turns of which the assistant's are learned."""

    messages: tuple[Message, ...]
    """With `role` and `content`, perhaps `tool_calls`; at least one of them is the assistant's and
    learned. `train` is there where a row says it: whether the message is learned."""
    tools: tuple[Message, ...] = ()
    """What the template tells of tools."""


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A prompt and what follows it."""

    prompt: str
    """Not learned unless the scope is full."""
    completion: str
    """Not empty."""


@dataclass(frozen=True, kw_only=True)
class PlainText:
    """A text that is learned whole."""

    text: str
    """Not empty."""


@dataclass(frozen=True, kw_only=True)
class Preference:
    """Two answers to one prompt, of which one is the better."""

    prompt: tuple[Message, ...] | str
    """The turns before the answer, or a text."""
    chosen: tuple[Message, ...] | str
    """The better answer: turns where the prompt is turns, else a text."""
    rejected: tuple[Message, ...] | str
    """The other one."""
    tools: tuple[Message, ...] = ()
    """What the template tells of tools."""


Example = Conversation | Completion | PlainText | Preference


class RowProblem(ValueError):
    """A row cannot be used; the text is why, as a clause."""


def format_of(values: dict[str, Any]) -> str:
    """Return a row's format by its keys: one of `FORMATS`, or `unknown`."""
    if "chosen" in values and "rejected" in values:
        return "dpo"
    if "messages" in values:
        return "messages"
    if "prompt" in values and "completion" in values:
        return "prompt-completion"
    return "text" if "text" in values else "unknown"


def read_example(values: dict[str, Any], form: str) -> Example:
    """Return what a row of a format teaches.

    Raises:
        RowProblem: it lacks something, or something is of another kind.
    """
    return _READERS[form](values)


def _conversation(values: dict[str, Any]) -> Conversation:
    messages = _messages(values, "messages")
    answers = [message for message in messages if message["role"] == "assistant"]
    if not answers:
        raise RowProblem("none of its messages is the assistant's")
    if all(message.get("train") is False for message in answers):
        raise RowProblem("none of its assistant messages is learned (weight 0, or train false)")
    return Conversation(messages=messages, tools=_tools(values))


def _completion(values: dict[str, Any]) -> Completion | Conversation:
    if isinstance(values.get("prompt"), list):
        answer = {"role": "assistant", "content": _text(values, "completion")}
        return Conversation(messages=(*_messages(values, "prompt"), answer), tools=_tools(values))
    return Completion(
        prompt=_text(values, "prompt", empty=True), completion=_text(values, "completion")
    )


def _plain_text(values: dict[str, Any]) -> PlainText:
    return PlainText(text=_text(values, "text"))


def _preference(values: dict[str, Any]) -> Preference:
    if all(isinstance(values.get(key), str) for key in ("chosen", "rejected")):
        return _text_preference(values)
    chosen, rejected = _messages(values, "chosen"), _messages(values, "rejected")
    prompt = _prompt_turns(values)
    if prompt is None:  # both tell the whole conversation
        shared = _shared(chosen, rejected)
        prompt, chosen, rejected = chosen[:shared], chosen[shared:], rejected[shared:]
    for name, answer in (("chosen", chosen), ("rejected", rejected)):
        if not answer or answer[-1]["role"] != "assistant":
            raise RowProblem(f"its {name} does not end with a message of the assistant's")
    if chosen == rejected:
        raise RowProblem("its chosen and its rejected are the same")
    return Preference(prompt=prompt, chosen=chosen, rejected=rejected, tools=_tools(values))


def _text_preference(values: dict[str, Any]) -> Preference:
    chosen, rejected = _text(values, "chosen"), _text(values, "rejected")
    if chosen == rejected:
        raise RowProblem("its chosen and its rejected are the same")
    turns = _prompt_turns(values)
    if turns is None:
        raise RowProblem("it has no 'prompt'")
    if isinstance(values["prompt"], str):
        return Preference(prompt=values["prompt"], chosen=chosen, rejected=rejected)
    return Preference(
        prompt=turns,
        chosen=({"role": "assistant", "content": chosen},),
        rejected=({"role": "assistant", "content": rejected},),
        tools=_tools(values),
    )


def _prompt_turns(values: dict[str, Any]) -> tuple[Message, ...] | None:
    prompt = values.get("prompt")
    if prompt is None:
        return None
    if isinstance(prompt, str):
        return ({"role": "user", "content": prompt},)
    return _messages(values, "prompt")


def _shared(left: tuple[Message, ...], right: tuple[Message, ...]) -> int:
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _text(values: dict[str, Any], key: str, *, empty: bool = False) -> str:
    value = values.get(key)
    if not isinstance(value, str):
        raise RowProblem(f"its {key!r} is no text" if key in values else f"it has no {key!r}")
    if not value.strip() and not empty:
        raise RowProblem(f"its {key!r} is empty")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise RowProblem(f"its {key!r} holds half a character")
    return value


def _messages(values: dict[str, Any], key: str) -> tuple[Message, ...]:
    value = values.get(key)
    if value is None:
        raise RowProblem(f"it has no {key!r}")
    if not isinstance(value, list) or not value:
        raise RowProblem(f"its {key!r} is no list of messages")
    return tuple(_message(message, key, number) for number, message in enumerate(value, 1))


def _message(raw: Any, key: str, number: int) -> Message:
    where = f"message {number} of its {key!r}"
    if not isinstance(raw, dict):
        raise RowProblem(f"{where} is no object")
    role = "system" if raw.get("role") == "developer" else raw.get("role")
    if role not in _ROLES:
        raise RowProblem(f"{where} has the role {shown(role)}; there are {', '.join(_ROLES)}")
    message = {key: value for key, value in raw.items() if key not in ("weight", "train")}
    message |= {"role": role, "content": _content(raw.get("content"), where)}
    message |= _learned(raw, where)
    if "tool_calls" in raw:
        message["tool_calls"] = _tool_calls(raw["tool_calls"], where)
    if role == "assistant" and not message["content"] and not message.get("tool_calls"):
        raise RowProblem(f"{where} says nothing")
    return message


def _learned(raw: dict[str, Any], where: str) -> dict[str, bool]:
    """Return what a message says of being learned: OpenAI's `weight`, and `train`.

    Empty: nothing, and then the assistant's are learned.
    """
    weight, train = raw.get("weight"), raw.get("train")
    if weight is not None and (isinstance(weight, bool) or weight not in (0, 1)):
        raise RowProblem(f"the weight of {where} is {shown(weight)}; it must be 0 or 1")
    if train is not None and not isinstance(train, bool):
        raise RowProblem(f"the 'train' of {where} is {shown(train)}; it must be true or false")
    said = {value for value in (weight, train) if value is not None}
    if len(said) > 1:
        raise RowProblem(f"{where} says weight {weight} and train {str(train).lower()}")
    return {"train": bool(said.pop())} if said else {}


def _content(raw: Any, where: str) -> str:
    if isinstance(raw, list) and all(isinstance(part, dict) for part in raw):
        texts = [part.get("text") for part in raw if part.get("type") == "text"]
        if len(texts) < len(raw) or not all(isinstance(text, str) for text in texts):
            raise RowProblem(f"{where} holds something else than text")
        raw = "".join(texts)
    if raw is None:
        return ""
    if not isinstance(raw, str):
        raise RowProblem(f"the content of {where} is no text")
    if any("\ud800" <= character <= "\udfff" for character in raw):
        raise RowProblem(f"the content of {where} holds half a character")
    return raw


def _tool_calls(raw: Any, where: str) -> list[dict[str, Any]]:
    """Return calls with their arguments as objects: what templates write down as JSON."""
    if raw is None:
        return []
    if not isinstance(raw, list) or not all(isinstance(call, dict) for call in raw):
        raise RowProblem(f"the tool_calls of {where} are no list of objects")
    return [call | {"function": _function(call.get("function"), where)} for call in raw]


def _function(raw: Any, where: str) -> dict[str, Any]:
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
        raise RowProblem(f"a tool call of {where} names no function")
    arguments = raw.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise RowProblem(f"the arguments of a tool call of {where} are not JSON") from None
    if arguments is not None and not isinstance(arguments, dict):
        raise RowProblem(f"the arguments of a tool call of {where} are no object")
    return raw | {"arguments": arguments}


def _tools(values: dict[str, Any]) -> tuple[Message, ...]:
    tools = values.get("tools")
    if tools is None:
        return ()
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise RowProblem("its 'tools' is no list of objects")
    return tuple(tools)


_READERS = {
    "messages": _conversation,
    "prompt-completion": _completion,
    "text": _plain_text,
    "dpo": _preference,
}
