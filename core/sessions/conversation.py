"""A conversation as the fold of its entries. Pure: reads no file and knows no model.

An entry is one line of a session file. What a chat does to its conversation, it does by an entry,
so that replaying the file gives the same conversation:

    {"type": "session", "id": ..., "cwd": ..., "model": ..., "created": ...}   the first line
    {"type": "message", "message": {"role": ..., "content": ...}, "finish": ...}
    {"type": "system", "content": ...}    another system message; null: none
    {"type": "model", "model": ...}       another model from here on
    {"type": "retry"}                     the last answer is given up
    {"type": "undo"}                      the last question and its answer are given up

`finish` stands beside answers: `stop`, `length`, `tool_calls`, or `cut` for one that was stopped. A
message may hold `reasoning_content`, what was thought before the answer; it is kept and not sent
again. An answer that calls tools holds `tool_calls` in OpenAI's form, and each result is a message:

    {"type": "message", "message": {"role": "tool", "tool_call_id": ..., "name": ...,
                                    "content": ...}}

Nothing of a result is the user's own word.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Entry = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A tool that an answer calls."""

    id: str
    """Unique in the conversation."""
    name: str
    """The tool."""
    arguments: str
    """A JSON object, or what the model wrote instead of one."""

    def as_openai(self) -> dict[str, Any]:
        """Return the call in OpenAI's form."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, kw_only=True)
class Message:
    """One thing that was said."""

    role: str
    """`user`, `assistant`, or `tool` for the result of a call."""
    content: str
    """What was said; an answer that was stopped early, or that only calls, may be empty."""
    finish: str | None = None
    """How an answer ended: `stop`, `length`, `tool_calls` or `cut`; None for questions, and where
    unknown."""
    calls: tuple[Call, ...] = ()
    """The tools that an answer calls."""
    call: str | None = None
    """Id of the call that a result belongs to; None: it is no result."""
    name: str | None = None
    """The tool that a result comes from; None: it is no result, or unknown."""

    def turn(self) -> dict[str, Any]:
        """Return the message as a chat template takes it."""
        turn: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.calls:
            turn["tool_calls"] = [call.as_openai() for call in self.calls]
        if self.call is not None:
            turn |= {"tool_call_id": self.call}
        if self.name is not None:
            turn |= {"name": self.name}
        return turn


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What has been said so far."""

    system: str | None = None
    """The system message."""
    messages: tuple[Message, ...] = ()
    """Questions, answers and results of calls, oldest first."""
    model: str | None = None
    """The model that answered last: a repo id or a folder."""

    @property
    def question(self) -> Message | None:
        """The last question, answered or not."""
        return next((m for m in reversed(self.messages) if m.role == "user"), None)

    def prompt(self) -> tuple[dict[str, Any], ...]:
        """Return the messages as a chat template takes them: user and assistant in turns.

        Answers without a word are left out, and what then stands side by side is joined: many
        templates refuse two messages of one role. So are calls without all their results, and calls
        of which no answer was made before the next question.
        """
        turns: list[dict[str, Any]] = []
        if self.system is not None:
            turns.append({"role": "system", "content": self.system})
        for message in _with_whole_rounds(self.messages):
            turn = message.turn()
            if not turns or turns[-1]["role"] != turn["role"] or message.role == "tool":
                turns.append(turn)
                continue
            joined = (turns[-1]["content"], turn["content"])
            turns[-1] |= turn | {"content": "\n\n".join(text for text in joined if text)}
        return tuple(turns)


def _with_whole_rounds(messages: tuple[Message, ...]) -> list[Message]:
    """Return the messages that a template can take; a round is an answer's calls with results."""
    kept: list[Message] = []
    open_from: int | None = None  # where the rounds begin that no answer follows yet
    position = 0
    while position < len(messages):
        message = messages[position]
        results = _results(messages, position + 1) if message.calls else []
        position += 1 + len(results)
        if message.role == "user" and open_from is not None:
            kept[open_from:] = [replace(m, calls=()) for m in kept[open_from:] if _speaks(m)]
            open_from = None
        if sorted(call.id for call in message.calls) != sorted(str(r.call) for r in results):
            message, results = replace(message, calls=()), []
        if message.calls:
            open_from = len(kept) if open_from is None else open_from
            kept += [message, *results]
        elif message.role != "tool" and message.content:
            open_from = None
            kept.append(message)
    return kept


def _speaks(message: Message) -> bool:
    return message.role == "assistant" and bool(message.content)


def _results(messages: tuple[Message, ...], start: int) -> list[Message]:
    """Return the results that stand from a position on."""
    following = islice(messages, start, None)
    return list(takewhile(lambda message: message.role == "tool", following))


def said(
    role: str,
    content: str,
    *,
    finish: str | None = None,
    reasoning: str = "",
    calls: tuple[Call, ...] = (),
) -> dict[str, Any]:
    """Return the entry of a message."""
    message: dict[str, Any] = {"role": role, "content": content}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [call.as_openai() for call in calls]
    entry: dict[str, Any] = {"type": "message", "message": message}
    return entry if finish is None else {**entry, "finish": finish}


def resulted(call: Call, content: str) -> dict[str, Any]:
    """Return the entry of a call's result."""
    message = {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content}
    return {"type": "message", "message": message}


def entry_of(message: Message) -> dict[str, Any]:
    """Return the entry that leads to a message."""
    if message.call is None:
        return said(message.role, message.content, finish=message.finish, calls=message.calls)
    return {"type": "message", "message": message.turn()}


def replay(entries: Iterable[Entry], start: Conversation | None = None) -> Conversation:
    """Return the conversation that entries lead to."""
    return reduce(apply, entries, start or Conversation())


def apply(before: Conversation, entry: Entry) -> Conversation:
    """Return the conversation after an entry; one of an unknown kind or shape changes nothing."""
    match entry:
        case {"type": "message", "message": dict(message)}:
            return _with_message(before, message, entry.get("finish"))
        case {"type": "system", "content": str() | None as content}:
            return replace(before, system=content)
        case {"type": "session" | "model", "model": str(model)}:
            return replace(before, model=model)
        case {"type": "retry"}:
            return replace(before, messages=_up_to_question(before.messages, include=True))
        case {"type": "undo"}:
            return replace(before, messages=_up_to_question(before.messages, include=False))
        case _:
            return before


def _with_message(before: Conversation, message: Entry, finish: object) -> Conversation:
    role, content = message.get("role"), text_of(message.get("content"))
    calls = _calls(message.get("tool_calls")) if role == "assistant" else ()
    if content is None and calls:
        content = ""
    if content is None:
        return before
    if role == "system":
        return replace(before, system=content)
    said = _message(message, str(role), content, calls)
    if said is None:
        return before
    if isinstance(finish, str):
        said = replace(said, finish=finish)
    return replace(before, messages=(*before.messages, said))


def _message(message: Entry, role: str, content: str, calls: tuple[Call, ...]) -> Message | None:
    """Return a message; None: its role is unknown, or it is a result of nothing."""
    if role in ("user", "assistant"):
        return Message(role=role, content=content, calls=calls)
    match message:
        case {"role": "tool", "tool_call_id": str(call)}:
            name = message.get("name")
            return Message(
                role="tool",
                content=content,
                call=call,
                name=name if isinstance(name, str) else None,
            )
    return None


def _calls(written: object) -> tuple[Call, ...]:
    """Return the calls of an answer; what is none is left out."""
    found: list[Call] = []
    for one in written if isinstance(written, list) else ():
        match one:
            case {"id": str(id), "function": {"name": str(name), "arguments": str(arguments)}}:
                found.append(Call(id=id, name=name, arguments=arguments))
    return tuple(found)


def text_of(content: object) -> str | None:
    """Return a message's text; other programs write it as a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(part for part in parts if isinstance(part, str))


def _up_to_question(messages: tuple[Message, ...], *, include: bool) -> tuple[Message, ...]:
    """Return what stands before the end of the last question, or before its beginning."""
    last = max((i for i, m in enumerate(messages) if m.role == "user"), default=-1)
    return messages[: last + 1 if include else max(last, 0)]
