"""Words found in conversations: the right places, and no more work than there should be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from core.errors import NotFound
from core.sessions import search
from core.sessions.search import Match, search_sessions, session_file

HEADER = {"type": "session", "id": "1", "cwd": "/"}


def _write(folder: Path, name: str, *texts: str, role: str = "user") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[Any] = [HEADER, *({"type": "message", "message": _said(role, t)} for t in texts)]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def _one(folder: Path, words: str) -> Match:
    (found,) = search_sessions(folder, words).found
    (match,) = found.matches
    return match


def _marked(match: Match) -> str:
    return match.snippet[match.start : match.end]


def test_a_snippet_holds_what_stands_around(tmp_path: Path) -> None:
    text = "a" * 100 + " rosemary " + "b" * 100
    path = _write(tmp_path, "one", text)
    (found,) = search_sessions(tmp_path, "ROSEmary").found
    assert (found.path, found.title) == (path, "a" * 59 + "…")
    (match,) = found.matches
    assert match == Match(snippet=text[41:169], start=60, end=68, role="user")


def test_nothing_is_there(tmp_path: Path) -> None:
    assert search_sessions(tmp_path / "none", "x").found == ()
    _write(tmp_path, "one", "abc")
    assert search_sessions(tmp_path, "abd").found == ()


@pytest.mark.parametrize(
    ("text", "words", "marked"),
    [
        ("İstanbul ist groß", "groß", "groß"),
        ("İİİ and tea", "TEA", "tea"),
        ("Straße", "STRASSE", "Straße"),
        ("Straße", "as", "aß"),
        ("the ﬁrst", "first", "ﬁrst"),
        ("ΟΔΟΣ", "οδος", "ΟΔΟΣ"),
        ("οδός ΟΔΌΣ"[5:], "οδός", "ΟΔΌΣ"),
        ("👍🏽 yes 🇩🇪", "YES", "yes"),
    ],
)
def test_offsets_are_right_where_folding_changes_lengths(
    tmp_path: Path, text: str, words: str, marked: str
) -> None:
    _write(tmp_path, "one", "ß" * 80 + text)
    assert _marked(_one(tmp_path, words)) == marked


def test_questions_and_answers_count_and_nothing_else(tmp_path: Path) -> None:
    path = _write(tmp_path, "one", "pear in a question")
    others = [
        {"type": "message", "message": _said("assistant", [{"type": "text", "text": "a pear"}])},
        {"type": "message", "message": _said("system", "pear")},
        {"type": "message", "message": _said("user", 5)},
        {"type": "message", "message": "pear"},
        {"type": "message"},
        {"type": "system", "content": "pear"},
    ]
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in others)
    (found,) = search_sessions(tmp_path, "pear").found
    assert [match.role for match in found.matches] == ["user", "assistant"]


def test_broken_lines_are_passed_over(tmp_path: Path) -> None:
    path = _write(tmp_path, "one", "plum")
    with path.open("ab") as file:
        file.write(b'{"type": "mess\n\xff\xfe\n' + b"[" * 100_000 + b"\nnull\n[]\n5\n")
        file.write(json.dumps({"type": "message", "message": _said("user", "plum")}).encode())
    (found,) = search_sessions(tmp_path, "plum").found
    assert len(found.matches) == 2


def test_fifty_matches_and_ten_of_each(tmp_path: Path) -> None:
    for number in range(7):
        path = _write(tmp_path, f"{number}", "fig " * 8, "fig " * 8)
        os.utime(path, (number, number))
    result = search_sessions(tmp_path, "fig")
    assert [found.path.stem for found in result.found] == ["6", "5", "4", "3", "2"]
    assert [len(found.matches) for found in result.found] == [10] * 5
    assert result.complete


def test_no_part_of_a_control_sequence_comes_back(tmp_path: Path) -> None:
    _write(tmp_path, "one", "\x1b[31mred\x07 wine \ud83d")
    assert _one(tmp_path, "wine").snippet == "[31mred wine ?"


def test_what_is_not_a_file_of_the_folder_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    _write(folder, "mine", "quince")
    outside = _write(tmp_path / "elsewhere", "theirs", "quince")
    (folder / "link.jsonl").symlink_to(outside)
    (folder / "gone.jsonl").symlink_to(tmp_path / "nowhere.jsonl")
    (folder / "folder.jsonl").mkdir()
    os.mkfifo(folder / "pipe.jsonl")
    assert [found.path.stem for found in search_sessions(folder, "quince").found] == ["mine"]


def test_a_search_reads_no_more_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = _write(tmp_path, "new", "kiwi"), _write(tmp_path, "old", "kiwi")
    os.utime(old, (1, 1))
    monkeypatch.setattr(search, "_MOST_BYTES", new.stat().st_size)
    result = search_sessions(tmp_path, "kiwi")
    assert [found.path for found in result.found] == [new]
    assert not result.complete
    ticks = iter([0.0, 11.0, 12.0])
    assert search_sessions(tmp_path, "kiwi", clock=lambda: next(ticks)).found == ()


def test_a_path_means_a_file_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    mine = _write(folder, "mine", "a")
    for given in (str(mine), "mine.jsonl", "./mine.jsonl", f"{folder}/../sessions/mine.jsonl"):
        assert session_file(folder, given) == mine.resolve()


def test_a_path_that_leads_out_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    theirs = _write(tmp_path / "sessions-of-others", "theirs", "a")
    _write(folder, "mine", "a")
    (folder / "link.jsonl").symlink_to(theirs)
    for given in (str(theirs), "../x.jsonl", "link.jsonl", "/etc/passwd", "/", "..", "a/../../b"):
        assert session_file(folder, given) is None


@pytest.mark.parametrize(
    "given",
    [
        "gone.jsonl",
        "pipe.jsonl",
        "folder.jsonl",
        "notes.txt",
        "",
        ".",
        "a\0b",
        "\ud800",
        "x" * 9999,
    ],
)
def test_what_is_no_session_file(tmp_path: Path, given: str) -> None:
    _write(tmp_path, "mine", "a")
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "notes.txt").write_text("{}")
    with pytest.raises(NotFound):
        session_file(tmp_path, given)
