"""A conversation as a file for somebody else: Markdown to read, JSONL to load again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from core.errors import UsageProblem
from core.sessions.conversation import Conversation, Message, entry_of
from core.sessions.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable

_HEADINGS = {"user": "You", "assistant": "Assistant", "tool": "Tool"}
_CUT = {"cut": "*(stopped)*", "length": "*(cut at its token limit)*"}


def exporter(suffix: str) -> Callable[[Conversation], str]:
    """Return the function that writes a conversation for a file name's suffix.

    Raises:
        UsageProblem: no such format.
    """
    known = {".md": as_markdown, ".markdown": as_markdown, ".jsonl": as_jsonl}
    if suffix.lower() not in known:
        raise UsageProblem(
            f"A conversation is not written as {suffix or 'a file without a suffix'}.",
            hint="Let the name end in .md or .jsonl.",
        )
    return known[suffix.lower()]


def as_markdown(conversation: Conversation) -> str:
    """Return the conversation as a document with a heading per message."""
    parts = []
    if conversation.model:
        parts.append(f"*{conversation.model}*")
    if conversation.system is not None:
        parts += ["## System", clean(conversation.system)]
    for message in conversation.messages:
        parts += [f"## {_heading(message)}", clean(message.content)]
        parts += [f"*{call.name}* `{clean(call.arguments)}`" for call in message.calls]
        if message.finish in _CUT:
            parts.append(_CUT[message.finish])
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def as_jsonl(conversation: Conversation) -> str:
    """Return the conversation as a session file that holds what was not taken back."""
    entries: list[dict[str, object]] = [{"type": "session", "model": conversation.model}]
    if conversation.system is not None:
        entries.append({"type": "system", "content": conversation.system})
    entries += [entry_of(message) for message in conversation.messages]
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def _heading(message: Message) -> str:
    name = f": {clean(message.name)}" if message.name else ""
    return f"{_HEADINGS[message.role]}{name}"
