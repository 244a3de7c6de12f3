"""Conversations as every source delivers them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime

Role = Literal["user", "assistant", "system", "tool"]
SourceKind = Literal["session", "chatgpt", "claude", "claude-code", "codex", "note"]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One message of a conversation, with secrets replaced by placeholders."""

    id: str
    """Unique within its conversation and stable across runs; no whitespace, no `#`."""
    role: Role
    """Facts about the user come from `user` turns only; the others are context."""
    text: str
    """Plain text; never empty."""
    at: datetime | None = None
    """When it was written, with a time zone; None: the source has no date for it."""


@dataclass(frozen=True, kw_only=True)
class SourceConversation:
    """A conversation, or a note, that articles can cite."""

    id: str
    """`KIND:ID`, stable across runs and exports: `chatgpt:6f1c…`. No whitespace, no `#`."""
    kind: SourceKind
    """Where it comes from; the part of `id` before the colon."""
    title: str
    """For people; may be empty."""
    turns: tuple[Turn, ...]
    """Oldest first, only the current branch; at least one."""
    digest: str
    """SHA-256 over the redacted turns, in hexadecimal: changes when the conversation does."""
    at: datetime | None = None
    """When it began, with a time zone; None: unknown."""

    def turn(self, message: str) -> Turn | None:
        """Return the turn with this id."""
        return next((turn for turn in self.turns if turn.id == message), None)
