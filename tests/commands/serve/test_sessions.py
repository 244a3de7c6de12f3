"""`GET /api/sessions/search` and `GET /api/sessions/export`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.sessions import store
from core.sessions.conversation import said
from core.sessions.store import SessionStore
from tests.commands.serve.home import Home

SEARCH, EXPORT = "/api/sessions/search", "/api/sessions/export"


def _chat(home: Home, *texts: str) -> Path:
    folder = SessionStore(home.paths.sessions_folder)
    writer = folder.create({"cwd": "/"}, first=texts[0], now=datetime(2026, 7, 6, tzinfo=UTC))
    for number, text in enumerate(texts):
        writer.append(said("assistant" if number % 2 else "user", text))
    writer.close()
    return writer.path


def test_words_are_found_where_they_stand(home: Home) -> None:
    path = _chat(home, "Chicken recipes?", "Rosemary and thyme. ROSEMARY!")
    assert home.get(SEARCH, params={"q": "rosemary"}) == {
        "ok": True,
        "results": [
            {
                "sessionPath": str(path),
                "sessionTitle": "Chicken recipes?",
                "matches": [
                    {
                        "snippet": "Rosemary and thyme. ROSEMARY!",
                        "ranges": [[0, 8]],
                        "role": "assistant",
                    },
                    {
                        "snippet": "Rosemary and thyme. ROSEMARY!",
                        "ranges": [[20, 28]],
                        "role": "assistant",
                    },
                ],
            }
        ],
    }


def test_without_conversations_nothing_is_found(home: Home) -> None:
    assert home.get(SEARCH, params={"q": "x"}) == {"ok": True, "results": []}


@pytest.mark.parametrize("query", ["", "?q=", "?q=%20%20", "?query=x"])
def test_a_search_needs_words(home: Home, query: str) -> None:
    answer = home.client.get(SEARCH + query)
    assert answer.status_code == 400
    assert answer.json() == {"ok": False, "error": "q is required"}


def test_a_search_is_for_words_and_not_for_books(home: Home) -> None:
    answer = home.client.get(SEARCH, params={"q": "x" * 300})
    assert (answer.status_code, "256" in answer.json()["error"]) == (400, True)


def test_a_search_that_reads_too_much_says_so(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    _chat(home, "pear")
    monkeypatch.setattr("core.sessions.search._MOST_BYTES", 10)
    assert home.get(SEARCH, params={"q": "pear"}) == {
        "ok": True,
        "results": [],
        "truncated": True,
    }


def test_an_export_is_the_file_line_by_line(home: Home) -> None:
    path = _chat(home, "Hi\ud83d", "Hello")
    odd = b'{"n": 123456789012345678901234567890, "half": "\\ud800", "deep": [[[]]]}'
    with path.open("ab") as file:
        file.write(b'{broken\n[]\n{"x": NaN}\n' + odd + b"\r\n" + b'{"type": "mess')
    answer = home.client.get(EXPORT, params={"path": str(path)})
    assert odd in answer.content
    whole = answer.json()
    assert (whole["ok"], whole["path"]) == (True, str(path))
    assert [entry.get("type") for entry in whole["entries"]] == [
        "session",
        "message",
        "message",
        None,
    ]
    assert whole["entries"][1]["message"] == {"role": "user", "content": "Hi?"}
    assert home.get(EXPORT, params={"path": path.name})["entries"] == whole["entries"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (None, 400),
        ("", 400),
        ("gone.jsonl", 404),
        ("pipe.jsonl", 404),
        ("a\0b", 404),
        ("../config.toml", 403),
        ("link.jsonl", 403),
        ("/etc/passwd", 403),
        ("/dev/zero", 403),
        ("..", 403),
    ],
)
def test_an_export_is_of_session_files_alone(home: Home, path: str | None, status: int) -> None:
    folder = home.paths.sessions_folder
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "link.jsonl").symlink_to("/etc/passwd")
    answer = home.client.get(EXPORT, params={} if path is None else {"path": path})
    assert answer.status_code == status
    assert answer.json()["ok"] is False


def test_an_export_has_its_limit(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _chat(home, "pear")
    monkeypatch.setattr(store, "LIMIT", 10)
    answer = home.client.get(EXPORT, params={"path": path.name})
    assert (answer.status_code, "more than 10 bytes" in answer.json()["error"]) == (500, True)
