"""`mlxbun download`, run as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.registry.starter import HUB_STARTERS
from tests.caches import safetensors
from tests.fakehub import FakeHub, Fault, etag, weights
from tests.processes import NOWHERE, SCRIPT, environ_of, mlxbun, offline, wait_until

FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b"{}",
    "model.safetensors": weights(400_000),
    "pytorch_model.bin": bytes(1000),
}
REPO = "org/name"
SECRET = "hf_secretsecretsecret"


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        hub.add(REPO, FILES)
        yield hub


@pytest.fixture
def home(hub: FakeHub, tmp_path: Path) -> dict[str, str]:
    return environ_of(tmp_path / "home", HF_ENDPOINT=hub.url)


def _cache(environ: dict[str, str]) -> Path:
    return Path(environ["HOME"], ".cache", "huggingface", "hub")


def _partial(environ: dict[str, str]) -> Path:
    name = f"{etag('model.safetensors', FILES['model.safetensors'])}.mlxbun.incomplete"
    return _cache(environ) / "models--org--name" / "blobs" / name


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_model_for_a_person(home: dict[str, str], hub: FakeHub) -> None:
    done = mlxbun("download", REPO, environ=home)
    assert done.returncode == 0, done.stderr
    told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert (told["id"], told["commit"]) == (REPO, hub.repos[REPO].commit)
    assert {path.name for path in Path(told["folder"]).iterdir()} == {
        "config.json", "tokenizer.json", "model.safetensors",
    }  # fmt: skip
    first, *rest = done.stderr.splitlines()
    assert first == "org/name: fetching 400 kB (3 files, 400 kB)"
    assert sorted(rest) == [
        "config.json: 23 B, checked",
        "model.safetensors: 400 kB, checked",
        "tokenizer.json: 2 B, checked",
    ]
    again = mlxbun("download", REPO, environ=home)
    assert again.stdout == done.stdout
    assert again.stderr == "org/name: everything is here already, 400 kB\n"


def test_a_model_for_a_program(home: dict[str, str], hub: FakeHub) -> None:
    hub.faults = [Fault(name="model.safetensors", cut=100_000)]
    done = mlxbun("download", REPO, "--json", environ=home)
    assert (done.returncode, done.stderr) == (0, "")
    events = _lines(done.stdout)
    kinds = [event["event"] for event in events if event["event"] != "progress"]
    assert (kinds[0], kinds[-1]) == ("plan", "done")
    assert sorted(kinds[1:-1]) == ["file", "file", "file", "retry"]
    plan, last = events[0], events[-1]
    assert plan["schema"] == 1
    assert (plan["id"], plan["revision"], plan["commit"]) == (
        REPO, "main", hub.repos[REPO].commit,
    )  # fmt: skip
    assert plan["missing_bytes"] == plan["total_bytes"] == last["size_bytes"]
    assert last["received_bytes"] == last["size_bytes"]
    assert (Path(last["folder"]) / "config.json").read_bytes() == FILES["config.json"]
    progress = [event for event in events if event["event"] == "progress"][-1]
    assert progress["done_bytes"] == progress["total_bytes"] == plan["total_bytes"]
    assert (progress["files_done"], progress["files_total"]) == (3, 3)


def test_a_dry_run(home: dict[str, str], hub: FakeHub) -> None:
    done = mlxbun("download", f"{REPO}@main", "--dry-run", environ=home)
    assert done.returncode == 0, done.stderr
    rows = [re.split(r"  +", line.rstrip()) for line in done.stdout.splitlines()]
    assert rows == [
        ["FILE", "SIZE", "HERE"],
        ["config.json", "23 B", "no"],
        ["tokenizer.json", "2 B", "no"],
        ["model.safetensors", "400 kB", "no"],
        [f"3 files, 400 kB; 400 kB to fetch (commit {hub.repos[REPO].commit[:12]})"],
    ]
    assert not hub.served
    assert not _cache(home).exists()
    (plan,) = _lines(mlxbun("download", REPO, "--dry-run", "--json", environ=home).stdout)
    assert plan["event"] == "plan"
    assert plan["files"][2] == {
        "name": "model.safetensors",
        "size_bytes": len(FILES["model.safetensors"]),
        "present_bytes": 0,
        "complete": False,
    }


def test_files_by_name(home: dict[str, str], hub: FakeHub) -> None:
    done = mlxbun(
        "download", REPO, "--include", "*.json", "--include", "*.bin", "--exclude", "tok*",
        environ=home,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(hub.served) == {"config.json", "pytorch_model.bin"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("../x",), 2, "'../x' is no repository"),
        (("a/b/c",), 2, "--include c"),
        (("a b",), 2, "is no repository"),
        (("",), 2, "is no repository"),
        (("org/name@..",), 2, "is no revision"),
        (("org/nothing",), 3, "The Hub has no model org/nothing"),
        (("org/name@v9",), 3, "has no revision 'v9'"),
        (("org/name", "--include", "no.json"), 3, "is called 'no.json'"),
        (("org/name", "--include", "no.json", "--dry-run"), 3, "is called 'no.json'"),
        (("org/name", "--memory-budget", "3"), 2, "chooses the size of the starter"),
        (("starter", "--dry-run"), 2, "takes no --include"),
        (("starter", "--include", "x"), 2, "takes no --include"),
        (("org/small",), 7, "has no safetensors weights"),
    ],
)
def test_refusals(
    arguments: tuple[str, ...], code: int, said: str, home: dict[str, str], hub: FakeHub
) -> None:
    hub.add("org/small", {"config.json": b"{}"})
    done = mlxbun("download", *arguments, environ=home)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert not _cache(home).exists()
    if arguments[0] != "starter":
        (event,) = _lines(mlxbun("download", *arguments, "--json", environ=home).stdout)
        assert (event["event"], event["error"]["exit_code"]) == ("failed", code)
        assert event["error"]["message"] in done.stderr


def test_offline_and_no_network(home: dict[str, str]) -> None:
    done = mlxbun("download", REPO, environ={**home, "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 6
    assert "HF_HUB_OFFLINE is set" in done.stderr
    done = mlxbun("download", REPO, environ={**home, "HF_ENDPOINT": NOWHERE})
    assert done.returncode == 6
    assert "cannot be reached" in done.stderr


def test_the_token_is_shown_nowhere(home: dict[str, str], hub: FakeHub) -> None:
    for _ in range(2):
        for more in ((), ("--json",), ("--dry-run",)):
            environ = {**home, "HF_TOKEN": SECRET, "MLXBUN_DEBUG": "1"}
            done = mlxbun("download", REPO, *more, environ=environ)
            assert done.returncode == (0 if hub.tokens else 6)
            assert SECRET not in done.stdout + done.stderr
        hub.tokens = {SECRET}
    kept = [path.read_bytes() for path in Path(home["HOME"]).rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in content for content in kept)


def _start(environ: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [SCRIPT, "download", REPO, *arguments],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_and_then_the_rest(home: dict[str, str], hub: FakeHub) -> None:
    hub.faults = [Fault(name="model.safetensors", stall=150_000)]
    with _start(home) as process:
        wait_until(lambda: _partial(home).exists() and _partial(home).stat().st_size == 150_000)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert "the same command goes on there" in err
    assert "Traceback" not in err
    plan = mlxbun("download", REPO, "--dry-run", environ=home).stdout
    assert "150 kB" in plan
    hub.forget()
    done = mlxbun("download", REPO, environ=home)
    assert "fetching 250 kB (3 files, 400 kB, 150 kB of it here)" in done.stderr
    assert hub.served["model.safetensors"] == len(FILES["model.safetensors"]) - 150_000


def test_a_second_start_is_refused(home: dict[str, str], hub: FakeHub) -> None:
    hub.faults = [Fault(name="model.safetensors", stall=150_000)]
    with _start(home) as process:
        wait_until(lambda: _partial(home).exists())
        done = mlxbun("download", REPO, environ=home)
        assert done.returncode == 10
        assert f"already in progress (process {process.pid})" in done.stderr
        process.kill()
    assert mlxbun("download", REPO, environ=home).returncode == 0


def test_a_reader_that_goes_away(home: dict[str, str]) -> None:
    command = f"{SCRIPT} download {REPO} --json | head -1"
    done = subprocess.run(
        command, shell=True, env=home, capture_output=True, text=True, check=False, timeout=60
    )
    assert json.loads(done.stdout)["event"] == "plan"
    assert "Traceback" not in done.stderr


def test_bars_on_a_terminal(home: dict[str, str], hub: FakeHub) -> None:
    hub.pace = 0.05
    process, terminal = pty.fork()
    if process == 0:
        environ = {**home, "TERM": "xterm", "COLUMNS": "100"}
        os.execve(SCRIPT, [SCRIPT, "download", REPO], environ)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # it has ended
            break
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert re.search(r"org/name +\S+ +[\d.]+ kB of 400 kB, [\d.]+ [kM]?B/s, \d+ s left", text)
    assert re.search(r"  model.safetensors +\S+ +[\d.]+ kB of 400 kB", text)
    assert "model.safetensors: 400 kB, checked" in text
    assert text.rstrip().endswith("size    400 kB")


# The starter


def test_the_starter_from_the_hub_and_again(tmp_path: Path) -> None:
    repo_id = HUB_STARTERS[-1].repo_id
    environ = environ_of(tmp_path / "home")
    arguments = ("download", "starter", "--json", "--memory-budget", "1")
    with FakeHub() as hub:
        files = {"config.json": FILES["config.json"], "model.safetensors": safetensors()}
        hub.add(repo_id, files)
        first = mlxbun(*arguments, environ={**environ, "HF_ENDPOINT": hub.url})
    again = mlxbun(*arguments, environ={**environ, "HF_ENDPOINT": NOWHERE})
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["id"] == repo_id
    assert again.stdout == first.stdout
    assert "downloading" not in again.stderr


def test_the_starter_without_any_network(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home", **offline(tmp_path / "links"))
    done = mlxbun("download", "starter", environ=environ)
    assert done.returncode == 6
    assert done.stdout == ""
    assert "mlxbun: The starter model could not be fetched" in done.stderr
    assert not list(_cache(environ).glob("models--*"))
