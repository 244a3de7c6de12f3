"""Conversations of a ChatGPT export.

`conversations.json` holds an array of conversations, each a tree: `mapping` has nodes with
`parent`, `children` and a `message`, and `current_node` names the leaf that the user saw last. Only
its branch is read. Left out are messages that the user never saw: hidden ones, weight 0, empty
system ones. What the user has said about themselves in the settings (`user_editable_context`) is
the user's word; text that the assistant writes to a tool, and what tools answer, is context.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from core.memory.sources.dates import from_any
from core.memory.sources.raw import MOST_PARTS, RawConversation, RawTurn, string
from core.memory.sources.trees import branch, leaves

if TYPE_CHECKING:
    from core.memory.turns import Role

_ROLES: tuple[Role, ...] = ("user", "assistant", "system", "tool")
_UNSPOKEN = ("thoughts", "reasoning_recap", "model_editable_context", "system_error")
"""Types of content that are not messages."""


def is_chatgpt(values: dict[str, Any]) -> bool:
    """Return whether an object of an export is a conversation of this kind."""
    return isinstance(values.get("mapping"), dict)


def read_chatgpt(values: dict[str, Any]) -> RawConversation | None:
    """Return the current branch of a conversation; None: nothing was said in it."""
    mapping: dict[str, Any] = values["mapping"]
    parents = {
        name: string(node.get("parent")) or None
        for name, node in mapping.items()
        if isinstance(node, dict)
    }
    leaf = string(values.get("current_node"))
    if leaf not in parents:
        leaf = _newest_leaf(mapping, parents)
    turns = [_turn(name, mapping[name].get("message")) for name in branch(leaf, parents)]
    said = tuple(turn for turn in turns if turn is not None)
    if not said:
        return None
    return RawConversation(
        kind="chatgpt",
        key=string(values.get("conversation_id")) or string(values.get("id")) or said[0].id,
        title=string(values.get("title")),
        turns=said,
        at=from_any(values.get("create_time")),
    )


def _newest_leaf(mapping: dict[str, Any], parents: dict[str, str | None]) -> str:
    """Return the leaf that was written last: what the user saw, where the export does not say."""

    def when(name: str) -> tuple[bool, float]:
        message = mapping[name].get("message")
        at = from_any(message.get("create_time")) if isinstance(message, dict) else None
        return at is not None, at.timestamp() if at else 0.0

    return max(leaves(parents), key=when, default="")


def _turn(name: str, message: Any) -> RawTurn | None:
    if not isinstance(message, dict) or _is_hidden(message):
        return None
    author, content = message.get("author"), message.get("content")
    role = author.get("role") if isinstance(author, dict) else None
    text = _content(content) if isinstance(content, dict) else ""
    if role not in _ROLES or not text.strip():
        return None
    # An assistant's message to a tool (`python`, `browser`, `bio`) is not what it says to the user.
    if role == "assistant" and message.get("recipient") not in (None, "all"):
        role = "tool"
    return RawTurn(
        id=string(message.get("id")) or name,
        role=cast("Role", role),
        text=text,
        at=from_any(message.get("create_time")),
    )


def _is_hidden(message: dict[str, Any]) -> bool:
    about = message.get("metadata")
    about = about if isinstance(about, dict) else {}
    if about.get("is_user_system_message") is True:
        return False  # "custom instructions": hidden in the chat, but written by the user
    weight = message.get("weight")
    return (
        about.get("is_visually_hidden_from_conversation") is True
        or about.get("is_contextual_answers_system_message") is True
        or (isinstance(weight, int | float) and weight == 0)
    )


def _content(content: dict[str, Any]) -> str:
    """Return the text of a message's content, pictures and other files left out."""
    kind = content.get("content_type")
    if kind in _UNSPOKEN:
        return ""
    if kind == "user_editable_context":
        texts = [content.get("user_profile"), content.get("user_instructions")]
        return "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())
    parts = content.get("parts")
    if isinstance(parts, list):
        return "\n".join(filter(None, (_part(part) for part in islice(parts, MOST_PARTS))))
    # `code`, `execution_output` and `tether_quote` hold one text.
    return string(content.get("text")) or string(content.get("result"))


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    return string(part.get("text"))  # of `audio_transcription`: what was spoken
