"""Conversations as readers find them, and how they become fit to be stored. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from core.memory.redact.redactor import Redactor
from core.memory.turns import Role, SourceConversation, SourceKind, Turn
from core.sessions.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

MOST_BYTES = 64 * 2**20
"""Bytes of one conversation, as JSON, at most."""
MOST_TURNS = 200_000
"""Turns of one conversation at most."""
MOST_CHARACTERS = 200_000
"""Characters of one turn that are kept."""
MOST_PARTS = 10_000
"""Parts of one message that are read."""
_LONGEST_TITLE = 200
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,79}")
_ANY_VAULT = Redactor(b"")  # to tell whether there is a secret; its placeholders are not used


@dataclass(frozen=True, kw_only=True)
class RawTurn:
    """One message as the source has it."""

    id: str
    """The source's own id, or one that is the same whenever the source is read."""
    role: Role
    """Who wrote it."""
    text: str
    """Plain text; may hold secrets, control characters, or nothing."""
    at: datetime | None = None
    """When, with a time zone."""


@dataclass(frozen=True, kw_only=True)
class RawConversation:
    """A conversation as the source has it."""

    kind: SourceKind
    """Which reader found it."""
    key: str
    """The source's own id, or one that is the same whenever the source is read."""
    title: str
    """May be empty."""
    turns: tuple[RawTurn, ...]
    """Oldest first, only the current branch."""
    at: datetime | None = None
    """When it began, with a time zone."""
    unique_turns: bool = False
    """Whether a turn with the same id in another conversation of this kind is a copy of it."""

    @property
    def id(self) -> str:
        """The id of the `SourceConversation`."""
        return f"{self.kind}:{safe_id(self.key)}"


@dataclass
class ReadLog:
    """What readers could not use."""

    broken: int = 0
    """Lines that are not JSON, or not an object."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Files and conversations left out, by reason, a clause: `it is larger than 64 MiB`."""
    cut: int = 0
    """Turns of which only the first `MOST_CHARACTERS` characters are kept."""
    check: Callable[[], None] = lambda: None
    """Called every so often while a source is read; raises to stop that."""

    def skip(self, reason: str) -> None:
        """Count a file or a conversation that is left out."""
        self.skipped[reason] += 1

    def add(self, other: ReadLog) -> None:
        """Add the counts of another log."""
        self.broken += other.broken
        self.skipped += other.skipped
        self.cut += other.cut


def string(value: object) -> str:
    """Return a value that should be a string; anything else is an empty one."""
    return value if isinstance(value, str) else ""


def dicts(value: object) -> Iterator[dict[str, Any]]:
    """Yield the objects of a value that should be a list, at most `MOST_PARTS` of its items."""
    for item in islice(value if isinstance(value, list) else (), MOST_PARTS):
        if isinstance(item, dict):
            yield item


def safe_id(text: str) -> str:
    """Return an id without whitespace and `#`: the text itself if it can be one, else its hash.

    A text that a redactor would change is not fit: ids stand in citations.
    """
    if _SAFE_ID.fullmatch(text) and _ANY_VAULT.redact(text) == text:
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def finish(
    raw: RawConversation,
    *,
    strip: Callable[[str], str],
    redact: Callable[[str], str],
    log: ReadLog,
) -> SourceConversation | None:
    """Return a conversation that may be stored; None: nothing is left of it.

    Args:
        raw: as a reader found it.
        strip: takes out what memory itself has said (`core.memory.echoes.strip_marked`).
        redact: replaces secrets.
        log: counts turns that are cut and conversations that are left out.
    """
    if len(raw.turns) > MOST_TURNS:
        log.skip(f"it has more than {MOST_TURNS} messages")
        return None
    turns: list[Turn] = []
    seen: set[str] = set()
    for turn in raw.turns:
        name = safe_id(turn.id)
        text = redact(strip(clean(turn.text))).strip()
        if not text or name in seen:
            continue
        if len(text) > MOST_CHARACTERS:
            log.cut += 1
            text = text[:MOST_CHARACTERS].rstrip()
        seen.add(name)
        turns.append(Turn(id=name, role=turn.role, text=text, at=turn.at))
    if not turns:
        return None
    return SourceConversation(
        id=raw.id,
        kind=raw.kind,
        title=" ".join(redact(strip(clean(raw.title))).split())[:_LONGEST_TITLE],
        turns=tuple(turns),
        digest=digest_of(turns),
        at=raw.at or next((turn.at for turn in turns if turn.at), None),
    )


def digest_of(turns: Iterable[Turn]) -> str:
    """Return the digest of a conversation with these turns."""
    digest = hashlib.sha256()
    for turn in turns:
        fields = [turn.id, turn.role, turn.text, turn.at.isoformat() if turn.at else None]
        digest.update(json.dumps(fields).encode() + b"\n")
    return digest.hexdigest()
