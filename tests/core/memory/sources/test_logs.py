"""Logs of Claude Code and Codex, and notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.memory.sources.claude_code import read_claude_code
from core.memory.sources.codex import read_codex
from core.memory.sources.notes import read_note
from core.memory.sources.raw import RawConversation, ReadLog, finish, safe_id
from core.memory.sources.tags import split_blocks

AT = "2026-03-01T10:00:00.000Z"


def _write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def _said(conversation: RawConversation) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in conversation.turns]


# Claude Code


def _line(uuid: str, parent: str | None, text: Any, kind: str = "user", **more: Any) -> Any:
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "timestamp": AT,
        "sessionId": "s",
        "isSidechain": False,
        "message": {"role": kind, "content": text},
        **more,
    }


def _claude_code(tmp_path: Path, *lines: Any) -> RawConversation:
    (found,) = read_claude_code(_write(tmp_path / "5f0c.jsonl", *lines), ReadLog())
    return found


def test_side_chains_summaries_and_copies_are_left_out(tmp_path: Path) -> None:
    found = _claude_code(
        tmp_path,
        {"type": "summary", "summary": "About tea", "leafUuid": "u9"},
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        _line("u1", None, "I like tea."),
        _line("s1", None, "Look into tea.", isSidechain=True),
        _line("u1", None, "I like tea."),
        _line("u2", "u1", [{"type": "text", "text": "Noted."}], "assistant"),
        _line("c1", None, "This session continues…", isCompactSummary=True),
        _line("u3", "c1", "And coffee."),
    )
    assert found.id == "claude-code:5f0c"
    assert _said(found) == [
        ("user", "I like tea."),
        ("assistant", "Noted."),
        ("user", "And coffee."),
    ]
    assert found.unique_turns


def test_what_the_user_rewound_is_left_out(tmp_path: Path) -> None:
    found = _claude_code(
        tmp_path,
        _line("u1", None, "I like tea."),
        _line("a1", "u1", "Noted.", "assistant"),
        _line("u2", "a1", "I hate tea."),
        _line("a2", "u2", "Oh.", "assistant"),
        _line("u3", "a1", "I like coffee."),
    )
    assert [text for _, text in _said(found)] == ["I like tea.", "Noted.", "I like coffee."]


def test_tools_and_what_the_program_adds_are_context(tmp_path: Path) -> None:
    found = _claude_code(
        tmp_path,
        _line("u1", None, "<system-reminder>I am a robot.</system-reminder>I like tea."),
        _line("u2", "u1", "<command-name>/x</command-name><command-args>I cycle.</command-args>"),
        _line("u3", "u2", "The skill says: be kind.", isMeta=True),
        _line(
            "a1",
            "u3",
            [
                {"type": "thinking", "thinking": "hm"},
                {"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "/x"}},
            ],
            "assistant",
        ),
        _line(
            "u4",
            "a1",
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [{"type": "text", "text": "R"}],
                }
            ],
        ),
        _line("u5", "u4", "[Request interrupted by user]"),
    )
    assert _said(found) == [
        ("user", "I like tea."),
        ("tool", "I am a robot."),
        ("user", "I cycle."),
        ("tool", "/x"),
        ("tool", "The skill says: be kind."),
        ("tool", 'Read {"path": "/x"}'),
        ("tool", "R"),
    ]


def test_circles_of_parents_end(tmp_path: Path) -> None:
    found = _claude_code(tmp_path, _line("u1", "u2", "a"), _line("u2", "u1", "b"))
    assert [text for _, text in _said(found)] == ["a", "b"]


def test_strange_lines_of_claude_code(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "x.jsonl",
        {"type": "user"},
        {"type": "user", "message": 7},
        {"type": "user", "uuid": 7, "message": {"content": {"a": 1}}},
        {"type": "assistant", "uuid": "a", "message": {"content": [7, None, {"type": "text"}]}},
        [],
    )
    log = ReadLog()
    assert list(read_claude_code(path, log)) == []
    assert log.broken == 1


# Codex


def _meta(key: str, **more: Any) -> Any:
    return {
        "timestamp": AT,
        "type": "session_meta",
        "payload": {"id": key, "timestamp": AT, **more},
    }


def _item(role: str, *texts: str) -> Any:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text} for text in texts]
    payload = {"type": "message", "role": role, "content": content}
    return {"timestamp": AT, "type": "response_item", "payload": payload}


def _codex(tmp_path: Path, *lines: Any, name: str = "rollout-1") -> list[RawConversation]:
    return list(read_codex(_write(tmp_path / f"{name}.jsonl", *lines), ReadLog()))


def test_instructions_and_environment_are_context(tmp_path: Path) -> None:
    (found,) = _codex(
        tmp_path,
        _meta("c1"),
        _item("developer", "Be a coder."),
        _item("user", "# AGENTS.md instructions\n<INSTRUCTIONS>\nI am bold\n</INSTRUCTIONS>"),
        _item("user", "<environment_context>\n<cwd>/x</cwd>\n</environment_context>"),
        _item("user", "I like tea."),
        {"timestamp": AT, "type": "event_msg",
         "payload": {"type": "user_message", "message": "I like tea."}},
        _item("assistant", "Noted."),
        {"timestamp": AT, "type": "response_item",
         "payload": {"type": "function_call", "name": "shell", "arguments": '{"a": 1}'}},
        {"timestamp": AT, "type": "response_item",
         "payload": {"type": "function_call_output", "output": "done"}},
        _item("user", "# Context from my IDE setup:\nx.py\n## My request for Codex:\nI cycle."),
    )  # fmt: skip
    roles = [role for role, _ in _said(found)]
    assert [text for role, text in _said(found) if role == "user"] == ["I like tea.", "I cycle."]
    assert roles.count("system") == 1
    assert roles.count("tool") == 5
    assert (found.id, found.at is not None) == ("codex:c1", True)


def test_turns_that_were_rolled_back_are_left_out(tmp_path: Path) -> None:
    def back(count: Any) -> Any:
        return {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": count}}

    said = [_item("user", "a"), _item("assistant", "b"), _item("user", "c", "d")]
    (found,) = _codex(tmp_path, _meta("c1"), *said, _item("assistant", "e"), back(1))
    assert [text for _, text in _said(found)] == ["a", "b"]
    (found,) = _codex(
        tmp_path, _meta("c1"), *said, back("x"), back(-3), back(10**30), _item("user", "z")
    )
    assert [text for _, text in _said(found)] == ["z"]


def test_a_fork_has_the_ids_of_what_it_copies(tmp_path: Path) -> None:
    said = [_item("user", "a"), _item("assistant", "b")]
    (parent,) = _codex(tmp_path, _meta("c1"), *said)
    fork = [_meta("c2", forked_from_id="c1"), _meta("c1"), *said, _item("user", "c")]
    (child,) = _codex(tmp_path, *fork, name="rollout-2")
    (again,) = _codex(tmp_path, _meta("c3"), *fork, name="rollout-3")
    ids = [turn.id for turn in parent.turns]
    assert [turn.id for turn in child.turns][:2] == ids == [turn.id for turn in again.turns][:2]
    (other,) = _codex(tmp_path, _meta("c4"), *said, name="rollout-4")
    assert {turn.id for turn in other.turns}.isdisjoint(ids)


def test_sub_agents_are_left_out(tmp_path: Path) -> None:
    log = ReadLog()
    lines = [_meta("c1", source={"subagent": "review"}), _item("user", "Review this.")]
    assert list(read_codex(_write(tmp_path / "rollout-1.jsonl", *lines), log)) == []
    assert list(log.skipped) == ["a session of a Codex sub-agent"]


def test_older_logs_without_payloads(tmp_path: Path) -> None:
    (found,) = _codex(
        tmp_path,
        {"id": "c0", "timestamp": AT, "instructions": None},
        {"record_type": "state"},
        _item("user", "a")["payload"],
    )
    assert (found.id, _said(found)) == ("codex:c0", [("user", "a")])


# Notes


def _note(tmp_path: Path, text: str, name: str = "Note.md") -> list[RawConversation]:
    path = tmp_path / name
    path.write_text(text)
    return list(read_note(path, ReadLog(), base=tmp_path))


def test_sections_of_a_note_are_turns(tmp_path: Path) -> None:
    text = (
        "---\ntitle: My trip\ndate: 2026-03-01\ntags: [a]\n---\nBefore.\n\n# One\n\nI was in Rome."
        "\n\n```\n# not a heading\n```\n\n## Empty\n\n## One\n\nTwins.\n\n## One\n\nMore.\n"
    )
    (found,) = _note(tmp_path, text)
    texts = [turn.text.strip() for turn in found.turns]
    assert [text.split("\n")[0] for text in texts] == ["Before.", "# One", "## One", "## One"]
    assert "# not a heading" in texts[1]
    assert len({turn.id for turn in found.turns}) == 4
    assert found.title == "My trip"
    assert {turn.role for turn in found.turns} == {"user"}
    assert found.at is not None
    assert found.at.isoformat().startswith("2026-03-01T")
    (again,) = _note(tmp_path, text.replace("Before.", "Before that."))
    assert again.turns[1:] == found.turns[1:]


@pytest.mark.parametrize(
    ("text", "name"),
    [("---\ncreated: '2026-03-01 10:00'\n---\nx", "a.md"), ("x", "2026-03-01.md"),
     ("---\ndate: soon\n---\nx", "2026-03-01 Trip.md")],
)  # fmt: skip
def test_dates_of_notes(tmp_path: Path, text: str, name: str) -> None:
    (found,) = _note(tmp_path, text, name)
    assert found.at is not None
    assert found.at.date().isoformat() == "2026-03-01"


@pytest.mark.parametrize("text", ["", "  \n", "# Only a heading\n", "---\na: b\n---\n"])
def test_notes_that_say_nothing(tmp_path: Path, text: str) -> None:
    assert _note(tmp_path, text) == []


def test_front_matter_that_does_not_end_is_text(tmp_path: Path) -> None:
    (found,) = _note(tmp_path, "---\na: b\n")
    assert found.at is None


def test_notes_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    log = ReadLog()
    (tmp_path / "a.md").write_bytes(b"\xff\xfe")
    (tmp_path / "b.md").write_bytes(b"x" * (4 * 2**20 + 1))
    for name in ("a.md", "b.md"):
        assert list(read_note(tmp_path / name, log, base=tmp_path)) == []
    assert sum(log.skipped.values()) == 2


# What they share


def test_blocks_of_programs() -> None:
    text = "a <x>b</x> c <x>d <y>e</y>"
    assert split_blocks(text, ("x", "y")) == ("a \n c <x>d ", "b\ne")
    deep = "<x>" * 100_000
    assert split_blocks(deep, ("x",)) == (deep, "")


@pytest.mark.parametrize("text", ["", "a b", "a#b", "ü", "x" * 81, "-a", "\ud800"])
def test_ids_never_hold_what_a_citation_cannot(text: str) -> None:
    made = safe_id(text)
    assert made == safe_id(text)
    assert made.isascii()
    assert made.isalnum()
    assert safe_id("6f1c-22_a.b~") == "6f1c-22_a.b~"


def test_long_turns_are_cut_after_they_were_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    from core.memory.sources import raw

    monkeypatch.setattr(raw, "MOST_CHARACTERS", 10)
    turn = raw.RawTurn(id="m1", role="user", text="12345 secret\ud800\x1b[2J")
    empty = raw.RawTurn(id="m2", role="user", text=" \x00 ")
    found = RawConversation(kind="session", key="k", title="a\n b", turns=(turn, turn, empty))
    log = ReadLog()
    done = finish(found, strip=str, redact=lambda text: text.replace("secret", "[x]"), log=log)
    assert done is not None
    assert [each.text for each in done.turns] == ["12345 [x]?"]
    assert (log.cut, done.title) == (1, "a b")
