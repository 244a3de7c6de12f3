"""Whatever a source holds, readers end without an error and yield what can be stored."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.memory.sources.claude_code import read_claude_code
from core.memory.sources.codex import read_codex
from core.memory.sources.exports import read_export
from core.memory.sources.raw import RawConversation, ReadLog, finish
from core.memory.sources.sessions import read_session
from core.sessions.conversation import said
from tests.core.memory.sources.making import chatgpt, claude

_JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, float("nan"), 10**30, "", "x", "user", "\ud800", [], [[]], [None],
    {}, {"type": "text"}, {"text": 7}, {"role": "user"}, "40000-01-01", "a" * 200,
)  # fmt: skip
_AT = "2026-03-01T10:00:00Z"
_SOURCES: dict[str, Any] = {
    "export": [
        chatgpt(("user", "a"), ("assistant", "b"), ("user", "c")),
        claude(("human", "a"), ("assistant", "b")),
    ],
    "session": [
        {"type": "session", "id": "s", "created": _AT},
        said("user", "a"),
        said("tool", "b"),
        {"type": "retry"},
    ],
    "claude-code": [
        {"type": "user", "uuid": "u1", "parentUuid": None, "timestamp": _AT,
         "message": {"role": "user", "content": "a"}},
        {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "message": {"content": [
            {"type": "text", "text": "b"}, {"type": "tool_use", "name": "t", "input": {}},
            {"type": "tool_result", "content": [{"type": "text", "text": "r"}]}]}},
    ],
    "codex": [
        {"type": "session_meta", "timestamp": _AT, "payload": {"id": "c", "timestamp": _AT}},
        {"type": "response_item", "payload": {"type": "message", "role": "user",
         "content": [{"type": "input_text", "text": "a"}]}},
        {"type": "response_item", "payload": {"type": "function_call", "name": "n",
         "arguments": "{}"}},
        {"type": "response_item", "payload": {"type": "function_call_output", "output": "o"}},
        {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}},
    ],
}  # fmt: skip
_READERS: dict[str, Callable[[Path, ReadLog], Iterator[RawConversation]]] = {
    "export": read_export,
    "session": read_session,
    "claude-code": read_claude_code,
    "codex": read_codex,
}


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container in a value with each of its keys."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _spoiled(value: Any, chance: random.Random) -> Any:
    spoiled = copy.deepcopy(value)
    for _ in range(chance.randint(1, 3)):
        container, key = chance.choice(list(_places(spoiled)))
        if chance.random() < 0.2 and isinstance(container, dict):
            del container[key]
        else:
            container[key] = copy.deepcopy(chance.choice(_JUNK))
    return spoiled


@pytest.mark.parametrize("kind", _SOURCES)
def test_junk_in_any_place(kind: str, tmp_path: Path) -> None:
    chance = random.Random(kind)
    path = tmp_path / "rollout-1.jsonl"
    for _ in range(300):
        source = _spoiled(_SOURCES[kind], chance)
        if kind == "export":
            path.write_text(json.dumps(source))
        else:
            lines = source if isinstance(source, list) else [source]
            path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        log = ReadLog()
        for raw in _READERS[kind](path, log):
            done = finish(raw, strip=str, redact=str, log=log)
            if done is not None:
                assert done.turns
                assert not set(done.id + done.turns[0].id) & set(" \t\n#")
                json.dumps(done.title).encode()
                "".join(turn.text for turn in done.turns).encode()


@pytest.mark.parametrize("kind", _SOURCES)
def test_bytes_that_are_nothing(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for data in (b"", b"\x00" * 100, b"\xff\xfe\x00", b"PK\x03\x04", b"PK\x05\x06", b"[" * 10**5,
                 b"{" * 10**5, b'"' * 10**5, b"\n" * 1000, b'{"a": ' * 10**4):  # fmt: skip
        path.write_bytes(data)
        assert list(_READERS[kind](path, ReadLog())) == []


def test_a_log_of_a_hundred_thousand_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    head = '{{"type": "user", "uuid": "u{0}", "parentUuid": "u{1}", '
    line = head + '"message": {{"content": "m{0}"}}}}\n'
    path.write_text("".join(line.format(n, n - 1) for n in range(100_000)))
    (found,) = read_claude_code(path, ReadLog())
    assert (len(found.turns), found.turns[-1].text) == (100_000, "m99999")
