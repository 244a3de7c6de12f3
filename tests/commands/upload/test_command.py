"""`mlxbun upload`, run as a user runs it."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from tests.caches import add_model
from tests.core.upload.conftest import MODEL, WEIGHTS, adapter_files, fill
from tests.core.upload.hub import Refusal, UploadHub
from tests.fakehub import weights
from tests.processes import NOWHERE, SCRIPT, environ_of, mlxbun, wait_until

REPO = "me/name"
SECRET = "hf_secretsecretsecret"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub() -> Iterator[UploadHub]:
    with UploadHub() as hub:
        hub.account(SECRET, "me", organizations=("org",))
        yield hub


@pytest.fixture
def home(hub: UploadHub, tmp_path: Path) -> dict[str, str]:
    return environ_of(tmp_path / "home", HF_ENDPOINT=hub.url, HF_TOKEN=SECRET)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fill(tmp_path / "model", MODEL)


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_model_for_a_person(home: dict[str, str], hub: UploadHub, folder: Path) -> None:
    fill(folder, {".DS_Store": b"x"})
    done = mlxbun("upload", str(folder), "--to", REPO, environ=home)
    assert done.returncode == 0, done.stderr
    page = f"{hub.url}/{REPO}"
    assert done.stdout == f"{page} {page}/commit/{hub.repos[REPO].commit}\n"
    assert done.stderr.splitlines() == [
        f"{folder}: a model, 3 files, 300 kB, to the model repository {REPO}",
        "left out: .DS_Store (--dry-run tells why)",
        "README.md is written by mlxbun; it goes to the Hub and not into the folder.",
        f"made the repository ({page})",
        "model.safetensors: 300 kB, sent",
    ]
    assert set(hub.files(REPO)) == {*MODEL, "README.md", ".gitattributes"}
    card = ModelCard(hub.files(REPO)["README.md"].decode())
    assert card.data.get("library_name") == "mlx"
    again = mlxbun("upload", str(folder), "--to", REPO, environ=home)
    assert again.stdout == done.stdout
    assert again.stderr.splitlines()[-2:] == [
        "1 file (300 kB) on the Hub already",
        "Nothing was committed: the branch holds all of it already.",
    ]


def test_a_model_for_a_program(home: dict[str, str], hub: UploadHub, folder: Path) -> None:
    hub.refusals = [Refusal(path="/preupload/", status=503)]
    arguments = ("upload", str(folder), "--to", REPO, "--json", "--private", "--message", "Mine")
    done = mlxbun(*arguments, environ=home)
    assert (done.returncode, done.stderr) == (0, "")
    events = _lines(done.stdout)
    kinds = [event["event"] for event in events if event["event"] != "progress"]
    assert kinds == ["plan", "made", "retry", "file", "done"]
    plan, last = events[0], events[-1]
    assert plan["schema"] == 1
    assert {key: plan[key] for key in ("id", "type", "kind", "revision", "private", "message")} == {
        "id": REPO, "type": "model", "kind": "model", "revision": "main", "private": True,
        "message": "Mine",
    }  # fmt: skip
    assert last["commit"] == hub.repos[REPO].commit
    assert last["url"] == f"{hub.url}/{REPO}"
    assert last["commit_url"] == f"{hub.url}/{REPO}/commit/{last['commit']}"
    assert (last["changed"], last["sent_bytes"]) == (True, len(WEIGHTS))
    assert hub.repos[REPO].private
    progress = [event for event in events if event["event"] == "progress"]
    assert {event["stage"] for event in progress} == {"reading", "sending"}
    assert progress[-1]["done_bytes"] == progress[-1]["total_bytes"] == plan["total_bytes"]


def test_a_dry_run(home: dict[str, str], hub: UploadHub, tmp_path: Path) -> None:
    cached = f"/x/models--org--base/snapshots/{COMMIT}"
    files = adapter_files(model=cached, data="org/data")
    more = {"0000100_adapters.safetensors": weights(9), "notes": b"x"}
    folder = fill(tmp_path / "adapter", {**files, **more})
    cache = Path(home["HOME"], ".cache", "huggingface", "hub")
    add_model(cache, "org/base", weights={"README.md": b"---\nlicense: mit\n---\n"})
    environ = {**home, "HF_TOKEN": "", "HF_ENDPOINT": NOWHERE}
    done = mlxbun("upload", str(folder), "--to", REPO, "--dry-run", environ=environ)
    assert (done.returncode, done.stderr) == (0, "")
    first, _, *rest = done.stdout.splitlines()
    assert first.startswith(f"{folder}: an adapter, 2 files, ")
    rows = [re.split(r"  +", line.rstrip()) for line in rest]
    assert ["adapters.safetensors", "5.22 kB"] in rows
    assert ["0000100_adapters.safetensors", "a checkpoint of a training"] in rows
    assert ["notes", "no file that an adapter is loaded from"] in rows
    assert "adapter_config.json (model) tells where things lie on this machine." in rest
    assert "README.md is written by mlxbun; it goes to the Hub and not into the folder." in rest
    card = done.stdout[done.stdout.index("---\n") :]
    assert ModelCard(card).data.get("license") == "mit"
    assert "<!-- mlxbun:end -->" in card
    assert hub.log == []
    assert not (folder / "README.md").exists()
    (plan,) = _lines(
        mlxbun("upload", str(folder), "--to", REPO, "--dry-run", "--json", environ=environ).stdout
    )
    assert (plan["event"], plan["kind"], plan["type"]) == ("plan", "adapter", "model")
    assert plan["card"]["text"] == card
    assert plan["skipped"][0] == {
        "name": "0000100_adapters.safetensors",
        "reason": "a checkpoint of a training",
        "size_bytes": len(weights(9)),
    }


def test_options(home: dict[str, str], hub: UploadHub, folder: Path) -> None:
    fill(folder, {"extra.bin": b"x", "secret.json": b"{}"})
    done = mlxbun(
        "upload", str(folder), "--to", "org/name", "--revision", "v2", "--type", "dataset",
        "--include", "*.bin", "--include", "*.safetensors", "--exclude", "secret*", "--no-card",
        environ=home,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    held = set(hub.files("datasets:org/name", "v2"))
    assert held == {*MODEL, "extra.bin", ".gitattributes"}
    assert f"{hub.url}/datasets/org/name/commit/" in done.stdout
    done = mlxbun("upload", str(folder), "--to", REPO, "--write-card", environ=home)
    assert (folder / "README.md").read_bytes() == hub.files(REPO)["README.md"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--to", "name"), 2, "'name' is no repository to upload to"),
        (("--to", "../x"), 2, "is no repository to upload to"),
        (("--to", "a/b", "--revision", ".."), 2, "is no revision"),
        (("--to", "a/b", "--type", "space"), 2, "There is no type 'space'"),
        (("--to", REPO, "--no-card", "--write-card"), 2, "exclude each other"),
        (("--to", REPO, "--message", ""), 2, "needs a message"),
        (("--to", REPO, "--include", "x.y"), 3, "No file is called 'x.y'"),
        (("--to", REPO, "--exclude", "*"), 3, "is left to upload"),
        (("--to", "nobody/name"), 3, "no user or organization 'nobody'"),
    ],
)
def test_refusals(
    arguments: tuple[str, ...], code: int, said: str, home: dict[str, str], folder: Path
) -> None:
    done = mlxbun("upload", str(folder), *arguments, environ=home)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    lines = _lines(mlxbun("upload", str(folder), *arguments, "--json", environ=home).stdout)
    assert (lines[-1]["event"], lines[-1]["error"]["exit_code"]) == ("failed", code)
    assert lines[-1]["error"]["message"] in done.stderr


def test_what_cannot_be_uploaded(home: dict[str, str], hub: UploadHub, folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(WEIGHTS[:-1])
    done = mlxbun("upload", str(folder), "--to", REPO, environ=home)
    assert done.returncode == 7
    assert "model.safetensors is broken: it has 300077 of 300078 bytes" in done.stderr
    done = mlxbun("upload", str(folder / "nothing"), "--to", REPO, environ=home)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 2
    assert hub.log == []


def test_no_network_and_no_token(home: dict[str, str], folder: Path) -> None:
    for changed, said in (
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
        ({"HF_ENDPOINT": NOWHERE}, "cannot be reached"),
        ({"HF_TOKEN": ""}, "There is no Hugging Face token"),
        ({"HF_TOKEN": "hf_other"}, "does not accept the token in HF_TOKEN"),
    ):
        done = mlxbun("upload", str(folder), "--to", REPO, environ={**home, **changed})
        assert (done.returncode, done.stdout) == (6, "")
        assert said in done.stderr
        assert done.stderr.splitlines()[-1].startswith("  ")


def test_the_token_is_shown_nowhere(home: dict[str, str], hub: UploadHub, folder: Path) -> None:
    loud = {**home, "MLXBUN_DEBUG": "1", "HF_DEBUG": "1", "HF_HUB_VERBOSITY": "debug"}
    echo = f'{{"error": "you sent {SECRET}"}}'.encode()
    for refusal in (None, Refusal(path="/commit/", status=403, body=echo, times=99)):
        hub.refusals = [refusal] if refusal else []
        for more in ((), ("--json",), ("--dry-run",)):
            fill(folder, {"tokenizer.json": json.dumps({"n": random.random()}).encode()})
            done = mlxbun("upload", str(folder), "--to", REPO, *more, environ=loud)
            assert done.returncode == (6 if refusal and more != ("--dry-run",) else 0)
            assert SECRET not in done.stdout + done.stderr
    kept = [path.read_bytes() for path in Path(home["HOME"]).parent.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in content for content in kept)


def test_neither_arrays_nor_transformers_are_imported(home: dict[str, str], folder: Path) -> None:
    script = (
        "import sys\nfrom mlxbun_cli.main import run\ncode = run(sys.argv[1:])\n"
        "print(code, [m for m in sys.modules if m.split('.')[0] in"
        " ('mlx', 'mlx_lm', 'numpy', 'transformers', 'torch', 'hf_xet')])"
    )
    for more in (["--dry-run"], []):
        done = subprocess.run(
            [sys.executable, "-c", script, "upload", str(folder), "--to", REPO, *more],
            env=home, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.splitlines()[-1] == "0 []"


# Interrupted and gone on with


def _start(environ: dict[str, str], folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [SCRIPT, "upload", str(folder), "--to", REPO, *arguments],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _shards(folder: Path, count: int, size: int = 400_000) -> int:
    """Replace the weights of a model by shards and return their bytes."""
    (folder / "model.safetensors").unlink()
    names = [f"model-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]
    files = {name: weights(size, seed=n) for n, name in enumerate(names, 1)}
    fill(folder, files)
    return sum(map(len, files.values()))


def test_ctrl_c_and_then_the_rest(home: dict[str, str], hub: UploadHub, folder: Path) -> None:
    total = _shards(folder, 6)
    hub.slow = 0.02
    with _start(home, folder) as process:
        wait_until(lambda: len(hub.objects) >= 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert "What has been sent is kept: the same command sends the rest." in err
    assert "Traceback" not in err
    assert hub.commits == []
    wait_until(lambda: not hub.sending)
    there = sum(map(len, hub.objects.values()))
    hub.received.clear()
    hub.slow = 0
    done = mlxbun("upload", str(folder), "--to", REPO, environ=home)
    assert done.returncode == 0, done.stderr
    assert hub.received_bytes == total - there
    assert hub.wrong == []
    assert "on the Hub already" in done.stderr


def test_kill_at_any_moment_and_then_the_rest(
    home: dict[str, str], hub: UploadHub, folder: Path
) -> None:
    """Nothing that the hub has is sent again, and what it has in the end is right."""
    total = _shards(folder, 8, 200_000)
    chance = random.Random(5)
    hub.slow = 0.02
    cut = 0
    for enough in (0, *(chance.randrange(1, 600_000) for _ in range(7))):
        had = dict(hub.objects)
        hub.received.clear()
        with _start(home, folder) as process:
            wait_until(lambda: hub.received_bytes >= enough or process.poll() is not None)  # noqa: B023
            process.kill()
            process.communicate()
        cut += any(oid not in hub.objects for oid in hub.received)
        assert not any(hub.received[oid] for oid in had)
    assert cut >= 3
    had = dict(hub.objects)
    hub.received.clear()
    hub.slow = 0
    done = mlxbun("upload", str(folder), "--to", REPO, environ=home)
    assert done.returncode == 0, done.stderr
    assert hub.received_bytes == total - sum(map(len, had.values()))
    assert hub.wrong == []
    for path in folder.iterdir():
        assert hub.files(REPO)[path.name] == path.read_bytes()
    assert len({(commit.message, commit.names) for commit in hub.commits}) == 1


def test_a_reader_that_goes_away(home: dict[str, str], folder: Path) -> None:
    command = f"{SCRIPT} upload {folder} --to {REPO} --json | head -1"
    done = subprocess.run(
        command, shell=True, env=home, capture_output=True, text=True, check=False, timeout=60
    )
    assert json.loads(done.stdout)["event"] == "plan"
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


def test_bars_on_a_terminal(home: dict[str, str], hub: UploadHub, folder: Path) -> None:
    hub.slow = 0.05
    process, terminal = pty.fork()
    if process == 0:
        environ = {**home, "TERM": "xterm", "COLUMNS": "100"}
        os.execve(SCRIPT, [SCRIPT, "upload", str(folder), "--to", REPO], environ)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # it has ended
            break
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert re.search(r"me/name +\S+ +[\d.]+ kB of 300 kB, [\d.]+ [kM]?B/s", text)
    assert "model.safetensors: 300 kB, sent" in text
    assert text.rstrip().endswith(f"{hub.url}/{REPO}/commit/{hub.repos[REPO].commit}")
