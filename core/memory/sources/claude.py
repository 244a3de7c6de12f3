"""Conversations of a Claude export.

`conversations.json` holds an array of conversations with `chat_messages`. Where messages name their
`parent_message_uuid` they are a tree, of which `current_leaf_message_uuid`, or else the newest
leaf, ends the branch that is read. A message has blocks of `content`; `text` repeats them, with
placeholders for what is not text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.memory.sources.dates import from_any
from core.memory.sources.raw import RawConversation, RawTurn, dicts, safe_id, string
from core.memory.sources.trees import branch

if TYPE_CHECKING:
    from core.memory.turns import Role

_ROLES: dict[str, Role] = {"human": "user", "user": "user", "assistant": "assistant"}


def is_claude(values: dict[str, Any]) -> bool:
    """Return whether an object of an export is a conversation of this kind."""
    return isinstance(values.get("chat_messages"), list)


def read_claude(values: dict[str, Any]) -> RawConversation | None:
    """Return the current branch of a conversation; None: nothing was said in it."""
    messages = [each for each in values["chat_messages"] if isinstance(each, dict)]
    current = _current(messages, string(values.get("current_leaf_message_uuid")))
    turns = tuple(
        turn for position, message in enumerate(current) for turn in _turns(position, message)
    )
    if not turns:
        return None
    return RawConversation(
        kind="claude",
        key=string(values.get("uuid")) or turns[0].id,
        title=string(values.get("name")),
        turns=turns,
        at=from_any(values.get("created_at")),
    )


def _current(messages: list[dict[str, Any]], leaf: str) -> list[dict[str, Any]]:
    """Return the messages of the current branch; all of them where there is no tree."""
    by_id = {string(message.get("uuid")): message for message in messages}
    parents = {
        name: string(message.get("parent_message_uuid")) or None for name, message in by_id.items()
    }
    if "" in by_id or not any(parent in by_id for parent in parents.values() if parent):
        return messages
    if leaf not in by_id:
        # Exports list messages in the order in which they were written.
        leaf = string(messages[-1].get("uuid"))
    return [by_id[name] for name in branch(leaf, parents)]


def _turns(position: int, message: dict[str, Any]) -> list[RawTurn]:
    """Return what a message says, and what tools answered within it."""
    role = _ROLES.get(string(message.get("sender")))
    if role is None:
        return []
    said, seen = _blocks(message.get("content"))
    if not said.strip():
        said = "" if seen.strip() else string(message.get("text"))
    at = from_any(message.get("created_at"))
    name = string(message.get("uuid")) or safe_id(
        f"{position} {role} {message.get('created_at')!r}"
    )
    turns = [RawTurn(id=f"{name}.tools", role="tool", text=seen, at=at)] if seen.strip() else []
    if said.strip():
        turns.append(RawTurn(id=name, role=role, text=said, at=at))
    if attached := _attachments(message.get("attachments")):
        turns.append(RawTurn(id=f"{name}.files", role="tool", text=attached, at=at))
    return turns


def _blocks(content: Any) -> tuple[str, str]:
    """Return the text of blocks, and that of tool results among them."""
    said: list[str] = []
    seen: list[str] = []
    for block in dicts(content):
        if block.get("type") == "text":
            said.append(string(block.get("text")))
        elif block.get("type") == "tool_result":
            seen.append(texts(block.get("content")))
    return "\n".join(filter(None, said)), "\n".join(filter(None, seen))


def texts(content: Any) -> str:
    """Return the text of a tool result: a text, or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (string(block.get("text")) for block in dicts(content))))


def _attachments(attachments: Any) -> str:
    """Return the text of attached files: context, for the user need not have written it."""
    found = (string(file.get("extracted_content")) for file in dicts(attachments))
    return "\n\n".join(filter(None, found))
