"""Where sources lie, and what is left out of the folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.memory.sources import find
from core.memory.sources.find import SourceOptions, source_files, usual_places
from core.memory.sources.raw import ReadLog
from core.paths import Paths


def _touch(folder: Path, *names: str) -> None:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        os.utime(path, (1_700_000_000 - number, 1_700_000_000 - number))


def _found(folder: Path, options: SourceOptions, log: ReadLog | None = None) -> list[str]:
    files = source_files(options, log or ReadLog(), vault=folder / "vault")
    return [file.path.relative_to(folder).as_posix() for file in files]


def test_logs_of_claude_code_oldest_first_without_agents(tmp_path: Path) -> None:
    _touch(tmp_path, "-p/b.jsonl", "-p/a.jsonl", "-q/c.jsonl", "-p/agent-1.jsonl",
           "-p/a/subagents/agent-2.jsonl", ".hidden/d.jsonl", "-p/e.json")  # fmt: skip
    found = _found(tmp_path, SourceOptions(claude_code=tmp_path))
    assert found == ["-q/c.jsonl", "-p/a.jsonl", "-p/b.jsonl"]


def test_logs_of_codex_by_the_time_in_their_names(tmp_path: Path) -> None:
    _touch(tmp_path, "2026/03/01/rollout-2026-03-01T10-a.jsonl",
           "2025/12/31/rollout-2025-12-31T10-b.jsonl", "2025/12/31/other.jsonl")  # fmt: skip
    found = _found(tmp_path, SourceOptions(codex=tmp_path))
    assert [name[:4] for name in found] == ["2025", "2026"]


def test_exports_in_a_folder(tmp_path: Path) -> None:
    _touch(tmp_path, "conversations.json", "conversations-001.json", "user.json", "a.ZIP", "x.txt")
    found = _found(tmp_path, SourceOptions(exports=(tmp_path,)))
    assert found == ["a.ZIP", "conversations-001.json", "conversations.json"]


def test_notes_without_links_hidden_folders_and_the_vault(tmp_path: Path) -> None:
    _touch(tmp_path, "a.md", "b/c.Markdown", ".obsidian/d.md", "vault/articles/e.md", "f.txt")
    (tmp_path / "g.md").symlink_to(tmp_path / "a.md")
    (tmp_path / "circle").symlink_to(tmp_path)
    assert _found(tmp_path, SourceOptions(notes=(tmp_path,))) == ["a.md", "b/c.Markdown"]
    assert _found(tmp_path, SourceOptions(notes=(tmp_path / "b/c.Markdown",))) == ["b/c.Markdown"]


def test_a_folder_with_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "_MOST_FILES", 2)
    _touch(tmp_path, *(f"{letter}/x.md" for letter in "abcdef"))
    log = ReadLog()
    assert len(_found(tmp_path, SourceOptions(notes=(tmp_path,)), log)) == 3
    assert sum(log.skipped.values()) == 1


def test_usual_places_follow_the_environment(tmp_path: Path) -> None:
    paths = Paths(home=tmp_path, cache=tmp_path, hub_cache=tmp_path)
    places = usual_places(paths, {"HOME": "/h"}, claude_code=True, codex=True)
    assert (places.sessions, places.claude_code, places.codex) == (
        tmp_path / "sessions",
        Path("/h/.claude/projects"),
        Path("/h/.codex/sessions"),
    )
    environ = {"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x"}
    places = usual_places(paths, environ, claude_code=True, codex=True)
    assert (places.claude_code, places.codex) == (Path("/c/projects"), Path("/x/sessions"))
    places = usual_places(paths, environ, claude_code=False, codex=False)
    assert (places.claude_code, places.codex) == (None, None)
