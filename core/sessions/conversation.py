"""A conversation as the fold of its entries. Pure: reads no file and knows no model.

An entry is one line of a session file. What a chat does to its conversation, it does by an entry,
so that replaying the file gives the same conversation:

    {"type": "session", "id": ..., "cwd": ..., "model": ..., "created": ...}   the first line
    {"type": "message", "message": {"role": ..., "content": ...}, "finish": ...}
    {"type": "system", "content": ...}    another system message; null: none
    {"type": "model", "model": ...}       another model from here on
    {"type": "retry"}                     the last answer is given up
    {"type": "undo"}                      the last question and its answer are given up

`finish` stands beside answers: `stop`, `length`, or `cut` for one that was stopped. A message may
hold `reasoning_content`, what was thought before the answer; it is kept and not sent again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Entry = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Message:
    """One thing that was said."""

    role: str
    """`user` or `assistant`."""
    content: str
    """What was said; an answer that was stopped early may be empty."""
    finish: str | None = None
    """How an answer ended: `stop`, `length` or `cut`; None for questions, and where unknown."""


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What has been said so far."""

    system: str | None = None
    """The system message."""
    messages: tuple[Message, ...] = ()
    """Questions and answers, oldest first."""
    model: str | None = None
    """The model that answered last: a repo id or a folder."""

    @property
    def question(self) -> Message | None:
        """The last question, answered or not."""
        return next((m for m in reversed(self.messages) if m.role == "user"), None)

    def prompt(self) -> tuple[dict[str, str], ...]:
        """Return the messages as a chat template takes them: user and assistant in turns.

        Answers without a word are left out, and what then stands side by side is joined: many
        templates refuse two messages of one role.
        """
        turns: list[dict[str, str]] = []
        if self.system is not None:
            turns.append({"role": "system", "content": self.system})
        for message in self.messages:
            if not message.content:
                continue
            if turns and turns[-1]["role"] == message.role:
                turns[-1]["content"] += f"\n\n{message.content}"
            else:
                turns.append({"role": message.role, "content": message.content})
        return tuple(turns)


def said(
    role: str, content: str, *, finish: str | None = None, reasoning: str = ""
) -> dict[str, Any]:
    """Return the entry of a message."""
    message = {"role": role, "content": content}
    if reasoning:
        message["reasoning_content"] = reasoning
    entry: dict[str, Any] = {"type": "message", "message": message}
    return entry if finish is None else {**entry, "finish": finish}


def replay(entries: Iterable[Entry], start: Conversation | None = None) -> Conversation:
    """Return the conversation that entries lead to."""
    return reduce(apply, entries, start or Conversation())


def apply(before: Conversation, entry: Entry) -> Conversation:
    """Return the conversation after an entry; one of an unknown kind or shape changes nothing."""
    match entry:
        case {"type": "message", "message": {"role": str(role), "content": content}}:
            return _with_message(before, role, text_of(content), entry.get("finish"))
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


def _with_message(
    before: Conversation, role: str, content: str | None, finish: object
) -> Conversation:
    if content is None or role not in ("system", "user", "assistant"):
        return before
    if role == "system":
        return replace(before, system=content)
    message = Message(
        role=role, content=content, finish=finish if isinstance(finish, str) else None
    )
    return replace(before, messages=(*before.messages, message))


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
