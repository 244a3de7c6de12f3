"""`/downloads` and `/api/hub/download`: started here or at the shell, seen here."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.download.ledger import Ledger
from core.errors import AlreadyRunning, EngineStopped
from core.progress import Transfer
from tests.commands.serve.home import Home
from tests.fakehub import FakeHub, Fault, weights
from tests.processes import NOWHERE, SCRIPT, environ_of, mlxbun, wait_until

REPO = "org/name"
WEIGHTS = weights(1_000_000)
FILES = {"config.json": b'{"model_type": "llama"}', "model.safetensors": WEIGHTS}
ROW = [
    "repo_id", "state", "current_file", "received_bytes", "total_bytes", "files_done",
    "files_total", "bytes_per_sec", "started_at", "finished_at",
]  # fmt: skip
SECRET = "hf_" + "s" * 30
_ROOT = Path(__file__).parents[3]


@pytest.fixture
def repo(hub: FakeHub) -> str:
    hub.add(REPO, FILES)
    return REPO


def _rows(home: Home) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = home.get("/downloads")["downloads"]
    return rows


def _state(home: Home) -> str:
    rows = _rows(home)
    return str(rows[-1]["state"]) if rows else "none"


def test_a_download_from_its_start_to_the_library(home: Home, hub: FakeHub, repo: str) -> None:
    hub.pace = 0.05
    begun = int(time.time())
    pasted = f" https://huggingface.co/{repo}/ "
    assert home.post("/api/hub/download", {"repo": pasted}) == {
        "ok": True,
        "repo": repo,
        "started": True,
    }
    wait_until(lambda: _rows(home)[0]["files_done"] and _rows(home)[0]["bytes_per_sec"] > 0)
    (row,) = _rows(home)
    assert list(row) == ROW
    assert (row["repo_id"], row["state"]) == (repo, "active")
    assert row["current_file"] == "model.safetensors"
    assert 0 < row["received_bytes"] < row["total_bytes"] == sum(map(len, FILES.values()))
    assert (row["files_done"], row["files_total"]) == (1, 2)
    assert begun <= row["started_at"] <= time.time()
    assert row["finished_at"] is None
    hub.pace = 0
    wait_until(lambda: _state(home) == "done")
    (row,) = _rows(home)
    assert row["received_bytes"] == row["total_bytes"]
    assert (row["current_file"], row["bytes_per_sec"], row["files_done"]) == (None, 0, 2)
    assert row["finished_at"] >= begun
    assert [model["repo_id"] for model in home.get("/api/hub/local")["models"]] == [repo]


def test_a_second_start_is_refused_in_the_words_of_the_protocol(
    home: Home, hub: FakeHub, repo: str
) -> None:
    hub.faults.append(Fault(name=".safetensors", stall=1000))
    home.post("/api/hub/download", {"repo": repo})
    for name in (repo, f"{repo}@main"):
        answer = home.client.post("/api/hub/download", json={"repo": name})
        assert answer.status_code == 409
        told = "a download for org/name is already in progress"
        assert answer.json() == {"ok": False, "error": told}
    assert len(_rows(home)) == 1


def test_many_at_once_start_one(home: Home, hub: FakeHub, repo: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    hub.faults.append(Fault(name=".safetensors", stall=1000))

    def ask(_number: int) -> int:
        return home.client.post("/api/hub/download", json={"repo": repo}).status_code

    with ThreadPoolExecutor(12) as pool:
        statuses = sorted(pool.map(ask, range(12)))
    assert statuses == [200] + [409] * 11


@pytest.mark.parametrize(
    "name",
    [
        "../../etc",
        "org/../name",
        "/etc/passwd",
        "org/name/more",
        "models--org--name",
        "org/name@../main",
        "org/name@",
        "org/\0name",
        "org/na me",
        "https://example.com/org/name",
        "x" * 500,
        "org/name\n",
        "\ud800",
    ],
)
def test_names_that_no_repository_has(home: Home, hub: FakeHub, name: str) -> None:
    if name.strip() != name:
        name = f"{name}x"
    import json

    answer = home.client.post(
        "/api/hub/download",
        content=json.dumps({"repo": name}),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 400
    problem = answer.json()
    assert problem["ok"] is False
    assert 0 < len(problem["error"]) < 300
    assert hub.log == []
    assert _rows(home) == []
    assert not home.paths.hub_cache.exists()


def test_a_repository_that_the_hub_does_not_have(home: Home) -> None:
    answer = home.client.post("/api/hub/download", json={"repo": "org/nothing"})
    assert answer.status_code == 404
    assert "The Hub has no model org/nothing" in answer.json()["error"]
    (row,) = _rows(home)
    assert (row["repo_id"], row["state"]) == ("org/nothing", "error")
    assert "The Hub has no model" in row["error"]
    assert list(row) == [*ROW, "error"]


def test_what_goes_wrong_later_stands_in_the_list(home: Home, hub: FakeHub, repo: str) -> None:
    hub.repos[repo].gated = True
    home.post("/api/hub/download", {"repo": repo})
    wait_until(lambda: _state(home) == "error")
    assert "gated" in _rows(home)[0]["error"]


def test_a_hub_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    with Home.opened(tmp_path / "home", NOWHERE) as home:
        assert home.post("/api/hub/download", {"repo": REPO})["started"] is True
        wait_until(lambda: _state(home) == "error")


def test_offline_is_told_at_once(tmp_path: Path, hub: FakeHub) -> None:
    with Home.opened(tmp_path / "home", hub.url, HF_HUB_OFFLINE="1") as home:
        answer = home.client.post("/api/hub/download", json={"repo": REPO})
        assert "HF_HUB_OFFLINE is set" in answer.json()["error"]
        assert hub.log == []


def test_five_are_shown_in_the_order_of_their_start(home: Home) -> None:
    ledger = Ledger(home.paths.downloads_file)
    for number in range(7):
        begun = ledger.begin(f"org/m{number}", "main")
        ledger.report(begun, _transfer(number))
        ledger.end(begun, "cancelled" if number == 6 else "done")
    rows = _rows(home)
    assert [row["repo_id"] for row in rows] == [f"org/m{number}" for number in range(2, 7)]
    assert [row["state"] for row in rows] == ["done"] * 4 + ["error"]
    assert "ended before it was done" in rows[-1]["error"]
    assert "error" not in rows[0]


def _transfer(done: int) -> Transfer:
    return Transfer(
        task=REPO, moving=(), done=done, total=10, rate=5.0, files_done=0, files_total=1
    )


def test_a_damaged_list_is_an_empty_one(home: Home) -> None:
    home.paths.downloads_file.parent.mkdir(parents=True)
    home.paths.downloads_file.write_bytes(b"no database" * 100)
    assert _rows(home) == []


def test_one_of_the_shell_is_seen_here_and_refused_here(
    home: Home, hub: FakeHub, repo: str
) -> None:
    hub.pace = 0.05
    command = [SCRIPT, "download", repo]
    with subprocess.Popen(
        command, env=home.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as shell:
        try:
            wait_until(lambda: any(row["bytes_per_sec"] > 0 for row in _rows(home)))
            (row,) = _rows(home)
            assert (row["repo_id"], row["state"]) == (repo, "active")
            answer = home.client.post("/api/hub/download", json={"repo": repo})
            assert answer.status_code == 409
            hub.pace = 0
            assert shell.wait(60) == 0
        finally:
            shell.kill()
    assert _state(home) == "done"


def test_a_shell_that_was_killed_is_not_active_for_ever(
    home: Home, hub: FakeHub, repo: str
) -> None:
    hub.faults.append(Fault(name=".safetensors", stall=1000))
    with subprocess.Popen(
        [SCRIPT, "download", repo], env=home.environ, stderr=subprocess.DEVNULL
    ) as shell:
        wait_until(lambda: hub.served["model.safetensors"] == 1000)
        assert _state(home) == "active"
        shell.kill()
    wait_until(lambda: _state(home) == "error")
    assert "has ended" in _rows(home)[0]["error"]
    home.post("/api/hub/download", {"repo": repo})
    wait_until(lambda: _state(home) == "done")


def test_one_of_ours_is_refused_at_the_shell(home: Home, hub: FakeHub, repo: str) -> None:
    hub.faults.append(Fault(name=".safetensors", stall=1000))
    home.post("/api/hub/download", {"repo": repo})
    done = mlxbun("download", repo, environ=home.environ)
    assert done.returncode == 10
    assert "already in progress" in done.stderr


def test_tokens_are_sent_and_never_told(tmp_path: Path, hub: FakeHub) -> None:
    hub.add(REPO, FILES).private = True
    hub.tokens.add(SECRET)
    with Home.opened(tmp_path / "home", hub.url) as home:
        home.post("/api/settings/hf-token", {"token": SECRET})
        home.post("/api/hub/download", {"repo": REPO})
        wait_until(lambda: _state(home) == "done")
        hub.tokens.clear()
        home.client.post("/api/hub/download", json={"repo": "org/other"})
        answers = [
            home.client.get(path).text
            for path in ("/downloads", "/library", "/api/hub/search?q=x", "/stats", "/v1")
        ]
        assert not any(SECRET in answer for answer in answers)
        assert SECRET not in repr(home.options)
    sent = [r.headers.get("authorization") for r in hub.requests if r.on_hub]
    assert f"Bearer {SECRET}" in sent
    assert not any("authorization" in r.headers for r in hub.requests if not r.on_hub)


def test_the_end_of_the_server_ends_what_it_fetches(home: Home, hub: FakeHub, repo: str) -> None:
    hub.faults.append(Fault(name=".safetensors", stall=500_000))
    home.post("/api/hub/download", {"repo": repo})
    wait_until(lambda: hub.served["model.safetensors"] >= 500_000)
    home.options.downloads.cancel()
    home.options.downloads.wait(5)
    assert _state(home) == "error"
    with pytest.raises(EngineStopped):
        home.options.downloads.start(repo, paths=home.paths, environ=home.environ)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_has_come(
    tmp_path: Path, hub: FakeHub, repo: str, number: signal.Signals
) -> None:
    environ = environ_of(tmp_path / "home", HF_ENDPOINT=hub.url)
    hub.faults.append(Fault(name=".safetensors", stall=500_000))
    command = [sys.executable, "-m", "tests.commands.serve.run_fake", "0", "30", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=_ROOT, env=environ
    ) as process:
        try:
            assert process.stdout is not None
            base = process.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+", base)
            with httpx.Client(base_url=base, timeout=20, trust_env=False) as client:
                wait_until(lambda: _answers(client))
                started = client.post("/api/hub/download", json={"repo": repo})
                assert started.status_code == 200
            wait_until(lambda: hub.served["model.safetensors"] >= 500_000)
            process.send_signal(number)
            assert process.wait(20) == 0
        finally:
            process.kill()
    partial = next((tmp_path / "home").rglob("*.mlxbun.incomplete"))
    assert partial.stat().st_size == 500_000
    hub.forget()
    assert mlxbun("download", repo, environ=environ).returncode == 0
    assert hub.served["model.safetensors"] == len(WEIGHTS) - 500_000


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.ConnectError:
        return False


def test_a_start_in_this_process_is_refused_too(home: Home, hub: FakeHub, repo: str) -> None:
    hub.faults.append(Fault(name=".safetensors", stall=1000))
    home.post("/api/hub/download", {"repo": repo})
    with pytest.raises(AlreadyRunning):
        home.options.downloads.start(repo, paths=home.paths, environ=home.environ)
