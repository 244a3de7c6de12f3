"""`POST /api/memory/init` and `GET /v1/memory/synthesize`, and what they leave in git."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from commands.serve.app import create_app
from core.memory.asking import Cancelled, Question
from core.memory.rules import RulesModel
from core.memory.stages.types import STAGES
from core.sessions.conversation import said
from core.sessions.store import SessionStore
from core.settings import Settings
from tests.commands.serve.fake_engine import FakeEngine
from tests.commands.serve.home import Home
from tests.commands.serve.live import serve_options, wait_until
from tests.processes import environ_of

INIT, RUN = "/api/memory/init", "/v1/memory/synthesize"
SAID = "My sister Ana works at Bluebird. The project Heron uses SQLite for storage."


class Gate(RulesModel):
    """The rules, but they wait until they may answer."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()
        self.asked = 0

    def answer(self, question: Question, *, cancelled: Callable[[], bool]) -> Mapping[str, Any]:
        self.asked += 1
        while not self.opened.wait(0.005):
            if cancelled():
                raise Cancelled
        return super().answer(question, cancelled=cancelled)


@pytest.fixture
def gate(home: Home) -> Gate:
    """Let a model write that the test can hold up."""
    gate = Gate()
    object.__setattr__(home.options, "memory_model", lambda _engine: gate)
    return gate


@pytest.fixture
def vault(home: Home, gate: Gate) -> Path:
    """A vault that was set up, and a chat that is not in it yet."""
    gate.opened.set()
    home.post(INIT, {})
    store = SessionStore(home.paths.sessions_folder)
    writer = store.create({"cwd": "/"}, first=SAID, now=datetime(2026, 7, 6, tzinfo=UTC))
    writer.append(said("user", SAID))
    writer.close()
    return home.paths.wiki


def _git(vault: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=vault, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _state(vault: Path) -> tuple[str, str]:
    """Return the commit of a vault, and what differs from it."""
    return _git(vault, "rev-parse", "HEAD"), _git(vault, "status", "--porcelain")


def _events(text: str) -> list[Any]:
    frames = [frame for frame in text.split("\n\n") if frame and not frame.startswith(":")]
    assert all(frame.startswith("data: ") for frame in frames)
    return [
        frame[6:] if frame == "data: [DONE]" else json.loads(frame.removeprefix("data: "))
        for frame in frames
    ]


def _run(home: Home, **params: str) -> list[Any]:
    answer = home.client.get(RUN, params=params, timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    return _events(answer.text)


def test_a_vault_is_set_up_once(home: Home) -> None:
    done = home.post(INIT, {})
    result, status = done["result"], done["status"]
    assert (done["ok"], result["root"]) == (True, str(home.paths.wiki))
    assert {"articles/", "Reference/", "README.md"} <= set(result["created"])
    assert (result["gitInitialized"], result["alreadySetUp"]) == (True, False)
    assert (status["exists"], status["isGitRepo"], status["articleCount"]) == (True, True, 0)
    assert status["recentArticles"] == []
    assert status["referenceCount"] > 5
    again = home.client.post(INIT).json()
    assert again["result"] == {
        "root": str(home.paths.wiki),
        "created": [],
        "gitInitialized": False,
        "alreadySetUp": True,
    }
    assert _git(home.paths.wiki, "status", "--porcelain") == ""


@pytest.mark.parametrize("path", [5, "", " ", [], {}, "relative", "/etc", "/", "~", "a\0b", "/tmp"])
def test_a_vault_is_not_set_up_anywhere(home: Home, path: Any) -> None:
    answer = home.client.post(INIT, json={"path": path})
    assert answer.status_code == 400
    assert answer.json()["ok"] is False
    assert answer.json()["error"].startswith("path must ")
    assert not home.paths.wiki.exists()


def test_a_vault_in_the_temporary_folder(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "out").symlink_to(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    inside = str(tmp_path / "tmp" / "wiki")
    assert home.post(INIT, {"path": inside})["status"]["root"] == inside
    answer = home.client.post(INIT, json={"path": str(tmp_path / "tmp" / "out" / "wiki")})
    assert answer.status_code == 400
    assert not (tmp_path / "wiki").exists()
    assert not home.paths.wiki.exists()


def test_without_git_there_is_no_vault(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    answer = home.client.post(INIT, json={})
    assert answer.status_code == 503
    assert (answer.json()["ok"], "git" in answer.json()["error"]) == (False, True)


def test_a_vault_that_is_locked_is_not_set_up(
    home: Home, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.memory.setup._PATIENCE", 0.1)
    descriptor = os.open(vault, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        answer = home.client.post(INIT, json={})
    finally:
        os.close(descriptor)
    assert (answer.status_code, answer.json()["ok"]) == (409, False)


def test_a_run_writes_articles_in_one_commit(home: Home, vault: Path) -> None:
    before, _ = _state(vault)
    *events, done, summary, end = _run(home)
    assert end == "[DONE]"
    assert done["type"] == "done"
    assert done["message"] == f"synthesis done — {summary['note']}"
    assert set(summary) == {"type", "implemented", "stages", "note"}
    assert (summary["implemented"], tuple(summary["stages"])) == (True, STAGES)
    assert {event["type"] for event in events} == {"stage", "log"}
    begun = [event["stage"] for event in events if event["type"] == "stage"]
    assert list(dict.fromkeys(begun)) == list(STAGES)
    head, dirty = _state(vault)
    assert (_git(vault, "rev-parse", "HEAD~1"), dirty) == (before, "")
    articles = home.get("/api/memory/list")["articles"]
    assert "Ana" in articles
    entries = home.get("/api/memory/history", params={"name": "Ana"})["entries"]
    assert [entry["hash"] for entry in entries] == [head]
    shown = home.get("/api/memory/diff", params={"name": "ana", "rev": head[:7]})
    assert (shown["name"], shown["rev"]) == ("Ana", head)
    assert shown["diff"].startswith("diff --git a/articles/Ana.md")
    assert "Project" not in shown["diff"]
    *_, end = _run(home)
    assert end == "[DONE]"
    assert _state(vault) == (head, "")


def test_a_difference_is_of_a_commit_that_touched_the_article(home: Home, vault: Path) -> None:
    first, _ = _state(vault)
    _run(home)
    blob = _git(vault, "rev-parse", "HEAD:articles/Ana.md")
    tree = _git(vault, "rev-parse", "HEAD^{tree}")
    for rev in (first, blob, tree, blob[:8], "0" * 40, "abcdef"):
        answer = home.client.get("/api/memory/diff", params={"name": "Ana", "rev": rev})
        assert (answer.status_code, answer.json()["ok"]) == (404, False), rev


def test_a_plan_changes_nothing(home: Home, vault: Path, gate: Gate) -> None:
    before = _state(vault)
    *_, done, summary, end = _run(home, dry="1")
    assert (summary["type"], end) == ("summary", "[DONE]")
    assert "1 conversation" in summary["note"]
    assert done["message"] == f"synthesis planned — {summary['note']}"
    assert (_state(vault), gate.asked) == (before, 0)


@pytest.mark.parametrize("dry", ["2", "yes", "11", "0x1"])
def test_a_switch_is_on_or_off(home: Home, dry: str) -> None:
    answer = home.client.get(RUN, params={"dry": dry})
    assert (answer.status_code, answer.json()) == (
        400,
        {"ok": False, "error": "dry must be 0 or 1"},
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"purpose": "prefetch"},
        {"sec-purpose": "prefetch;prerender"},
        {"sec-purpose": "prefetch;anonymous-client-ip"},
        {"x-moz": "prefetch"},
        {"x-purpose": "preview"},
    ],
)
def test_what_browsers_ask_in_advance_starts_nothing(
    home: Home, vault: Path, gate: Gate, headers: dict[str, str]
) -> None:
    before = _state(vault)
    answer = home.client.get(RUN, headers=headers)
    assert (answer.status_code, answer.json()["ok"]) == (503, False)
    assert home.client.head(RUN).status_code == 200
    assert (_state(vault), gate.asked) == (before, 0)


def test_without_a_vault_a_run_fails_and_does_not_end(home: Home) -> None:
    (event,) = _run(home)
    assert event["type"] == "error"
    assert event["message"].startswith(f"There is no memory vault at {home.paths.wiki}.")
    assert not home.paths.wiki.exists()


def test_a_second_client_follows_the_first(home: Home, vault: Path, gate: Gate) -> None:
    gate.opened.clear()
    with ThreadPoolExecutor(2) as clients:
        first = clients.submit(_run, home)
        wait_until(lambda: gate.asked)
        second = clients.submit(_run, home)
        wait_until(lambda: home.options.drain.running == 2)
        gate.opened.set()
        assert first.result(30) == second.result(30)
    assert _git(vault, "rev-list", "--count", "--author=mlxbun", "HEAD", "--", "articles") == "1"


def test_a_client_that_leaves_stops_the_run(home: Home, vault: Path, gate: Gate) -> None:
    before = _state(vault)
    gate.opened.clear()
    with home.client.stream("GET", RUN) as answer:
        pieces = answer.iter_raw()  # kept: without it, the connection closes
        next(pieces)
        wait_until(lambda: gate.asked)
    wait_until(lambda: not home.options.drain.running)
    gate.opened.set()
    asked = gate.asked
    assert _state(vault) == before
    *_, end = _run(home)
    assert (end, gate.asked > asked) == ("[DONE]", True)


def test_a_server_that_ends_stops_the_run(home: Home, vault: Path, gate: Gate) -> None:
    before = _state(vault)
    gate.opened.clear()
    with ThreadPoolExecutor(1) as clients:
        client = clients.submit(_run, home)
        wait_until(lambda: gate.asked)
        home.options.drain.begin()
        *_, last = client.result(30)
    assert last == {"type": "error", "message": "The run was stopped. The vault is as it was."}
    assert _state(vault) == before


def test_a_run_of_another_process_is_said(home: Home, vault: Path) -> None:
    lock = vault / ".git" / "mlxbun" / "synthesis.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        *_, last = _run(home)
    assert last["type"] == "error"
    assert "already" in last["message"]


@pytest.mark.parametrize(
    ("client", "status"), [("127.0.0.1", 200), ("10.0.0.5", 403), ("10.0.0.7", 403)]
)
def test_only_a_loopback_address_may_start_a_run(tmp_path: Path, client: str, status: int) -> None:
    """Browsers do not name the site that sends a GET to another address of this machine."""
    options = serve_options(environ_of(tmp_path / "home"))
    app: Any = create_app(FakeEngine(), Settings(), options)

    async def ask() -> int:
        transport = httpx.ASGITransport(app=app, client=(client, 5000))
        base = f"http://{client if status == 200 else '10.0.0.5'}:8080"
        async with httpx.AsyncClient(transport=transport, base_url=base) as http:
            return (await http.get(RUN, params={"dry": "1"})).status_code

    assert asyncio.run(ask()) == status


def test_a_vault_that_cannot_be_read_is_no_500(home: Home, vault: Path) -> None:
    (vault / ".git" / "HEAD").write_bytes(os.urandom(40))
    (vault / "articles" / "Ana.md").write_text("# Ana\n")
    for name in ("history", "diff"):
        params = {"name": "Ana", "rev": "abcd"} if name == "diff" else {"name": "Ana"}
        answer = home.client.get(f"/api/memory/{name}", params=params)
        assert answer.status_code in (404, 503)
        assert answer.json()["ok"] is False
