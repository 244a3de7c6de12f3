"""mlxbun's own chats, with what was retried or undone left out.

The entries are described in `core.sessions.conversation`. Messages of the role `tool`, which
`mlxbun chat --memory` writes, are context.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.memory.sources.dates import from_iso
from core.memory.sources.lines import read_objects
from core.memory.sources.raw import RawConversation, RawTurn, string
from core.sessions.conversation import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.memory.sources.raw import ReadLog
    from core.memory.turns import Role

_ROLES: tuple[Role, ...] = ("user", "assistant", "system", "tool")


def read_session(path: Path, log: ReadLog) -> Iterator[RawConversation]:
    """Yield the conversation in a session file, if it holds one.

    Raises:
        OSError: the file cannot be read.
    """
    key, created = path.stem, None
    turns: list[RawTurn] = []
    for number, entry in read_objects(path, log):
        match entry:
            case {"type": "session"}:
                key = string(entry.get("id")) or key
                created = created or from_iso(entry.get("created"))
            case {"type": "retry"}:
                _take_back(turns, question=False)
            case {"type": "undo"}:
                _take_back(turns, question=True)
            case {"type": "message", "message": dict(message)}:
                if turn := _turn(number, message, entry):
                    turns.append(turn)
            case _:
                pass
    if turns:
        title = next((turn.text for turn in turns if turn.role == "user"), "")
        yield RawConversation(kind="session", key=key, title=title, turns=tuple(turns), at=created)


def _turn(number: int, message: dict[str, Any], entry: dict[str, Any]) -> RawTurn | None:
    role, text = message.get("role"), text_of(message.get("content"))
    if role not in _ROLES or not text:
        return None
    return RawTurn(id=f"m{number}", role=role, text=text, at=from_iso(entry.get("timestamp")))


def _take_back(turns: list[RawTurn], *, question: bool) -> None:
    """Drop the last question's answer, and the question itself if it is to go too."""
    last = len(turns) - 1
    while last >= 0 and turns[last].role != "user":
        last -= 1
    del turns[max(last, 0) if question or last < 0 else last + 1 :]
