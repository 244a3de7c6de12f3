"""mlxbun's own chats as a source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.memory.sources.raw import RawConversation, ReadLog
from core.memory.sources.sessions import read_session
from core.sessions.conversation import replay, said


def _read(tmp_path: Path, *entries: Any, log: ReadLog | None = None) -> list[RawConversation]:
    path = tmp_path / "2026-11-29_16-40-07_hello.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return list(read_session(path, log or ReadLog()))


HEADER = {"type": "session", "id": "5f0c", "created": "2026-01-01T10:00:00+02:00"}
RETRY, UNDO = {"type": "retry"}, {"type": "undo"}
CHATS = [
    [said("user", "a"), said("assistant", "b"), RETRY, said("assistant", "c")],
    [said("user", "a"), said("assistant", "b"), UNDO, said("user", "d")],
    [said("user", "a"), said("assistant", "b"), said("user", "c"), UNDO, UNDO],
    [UNDO, said("user", "a"), RETRY, RETRY, said("assistant", "b")],
    [said("assistant", "b"), RETRY, said("user", "c")],
]


@pytest.mark.parametrize("entries", CHATS)
def test_retry_and_undo_mean_what_they_mean_to_a_chat(tmp_path: Path, entries: list[Any]) -> None:
    found = _read(tmp_path, HEADER, *entries)
    turns = [(turn.role, turn.text) for each in found for turn in each.turns]
    assert turns == [(m.role, m.content) for m in replay(entries).messages]


def test_ids_stay_when_the_chat_goes_on(tmp_path: Path) -> None:
    start = [HEADER, said("user", "a"), said("assistant", "b"), RETRY, said("assistant", "c")]
    (before,) = _read(tmp_path, *start)
    (after,) = _read(tmp_path, *start, said("user", "d"), said("assistant", "e"))
    assert after.turns[: len(before.turns)] == before.turns
    assert (after.id, after.title) == ("session:5f0c", "a")
    assert after.at is not None
    assert after.at.isoformat() == "2026-01-01T08:00:00+00:00"


def test_tool_messages_are_context_and_system_ones_too(tmp_path: Path) -> None:
    (found,) = _read(
        tmp_path, HEADER, said("system", "s"), said("user", "a"), said("tool", "result")
    )
    assert [turn.role for turn in found.turns] == ["system", "user", "tool"]


def test_broken_lines_are_counted(tmp_path: Path) -> None:
    log = ReadLog()
    path = tmp_path / "x.jsonl"
    good = json.dumps(said("user", "a")).encode()
    path.write_bytes(good + b'\n{"type": "mess\n\n[1]\n\xff\xfe\n' + b"[" * 100_000 + b"\n" + good)
    (found,) = read_session(path, log)
    assert [turn.text for turn in found.turns] == ["a", "a"]
    assert log.broken == 4


@pytest.mark.parametrize("created", [None, "soon", "40000-01-01", 1e308, "0001-01-01T00:00:00"])
def test_strange_dates_are_unknown(tmp_path: Path, created: object) -> None:
    (found,) = _read(tmp_path, {**HEADER, "created": created}, said("user", "a"))
    assert found.at is None


def test_a_file_without_messages_is_nothing(tmp_path: Path) -> None:
    assert _read(tmp_path, HEADER, {"type": "message", "message": {"role": "user"}}) == []
