"""What scripts rely on: quiet, offline, streams that are closed or full, colors that stay off."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from mlxbun_cli.main import run
from tests.caches import add_model, safetensors
from tests.fakehub import FakeHub
from tests.processes import SCRIPT, environ_of, mlxbun
from tests.tiny import llama_config, make_model

Environ = dict[str, str]

# Notes every connection that is opened, in the process and in those that it starts.
_SPY = """
import os, socket
connect = socket.socket.connect
def spy(self, address):
    with open(os.environ["CONNECTIONS"], "a") as log:
        log.write(f"{address}\\n")
    return connect(self, address)
socket.socket.connect = spy
"""
# All kinds of output: a table, a document, plain and drawn help, text, an error for a program.
_COMMANDS = ("ls", "ls --json", "config show", "--help", "ls --help", "--version")


@pytest.fixture
def environ(tmp_path: Path) -> Environ:
    _add(tmp_path, "org/name")
    return environ_of(tmp_path / "home", HF_HUB_CACHE=str(tmp_path / "hub"))


def _add(tmp_path: Path, name: str) -> None:
    config = json.dumps(llama_config()).encode()
    tensors = safetensors({f"layers.{n}.w": ("F32", (8, 8)) for n in range(9)})
    weights = {"model.safetensors": tensors}
    add_model(tmp_path / "hub", name, config=config, weights=weights)


def _sh(command: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell in which `mlxbun` is ours."""
    bin_first = f"{Path(SCRIPT).parent}{os.pathsep}{environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env={**environ, "PATH": bin_first},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "internal error" not in done.stderr
    return done


# --quiet


@pytest.mark.parametrize("words", ["-q config show", "config -q show", "config show --quiet"])
def test_quiet_before_the_verb_and_behind_it(words: str, environ: Environ) -> None:
    loud = mlxbun("config", "show", environ=environ)
    done = mlxbun(*words.split(), environ=environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, loud.stdout, "")
    assert loud.stderr


def test_quiet_leaves_errors(environ: Environ) -> None:
    done = mlxbun("ls", "-q", "--min-size", "large", environ=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mlxbun: --min-size must be a size")


def test_quiet_says_nothing_where_there_is_nothing(environ: Environ) -> None:
    done = mlxbun("ls", "nothing-is-called-so", "-q", environ=environ)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --offline


@pytest.fixture
def spied(tmp_path: Path) -> Environ:
    """Return an environment without models, in which every connection is noted."""
    (tmp_path / "spy").mkdir()
    (tmp_path / "spy" / "sitecustomize.py").write_text(_SPY)
    return environ_of(
        tmp_path / "home",
        PYTHONPATH=str(tmp_path / "spy"),
        CONNECTIONS=str(tmp_path / "connections"),
        HF_TOKEN="hf_secret",
    )


@pytest.mark.parametrize(
    "words",
    [
        "download org/name",
        "download org/name --dry-run",
        "download starter",
        "fit org/name",
        "upload FOLDER --to me/name",
        "generate hello",
        "chat",
        "bench",
        "perplexity",
        "serve --port 0",
    ],
)
@pytest.mark.parametrize(
    ("before", "behind", "variables"),
    [
        (("--offline",), (), {}),
        ((), ("--offline",), {}),
        ((), (), {"MLXBUN_OFFLINE": "1"}),
        ((), (), {"HF_HUB_OFFLINE": "1"}),
    ],
    ids=["before", "behind", "ours", "theirs"],
)
def test_offline_no_command_opens_a_connection(
    words: str,
    before: tuple[str, ...],
    behind: tuple[str, ...],
    variables: Environ,
    spied: Environ,
    tmp_path: Path,
) -> None:
    folder = make_model(tmp_path / "model")
    with FakeHub() as hub:
        hub.add("org/name", {"config.json": b"{}", "model.safetensors": b""})
        # The index would be asked for the starter.
        reachable = {"HF_ENDPOINT": hub.url, "PIP_INDEX_URL": f"{hub.url}/simple"}
        named = [str(folder) if word == "FOLDER" else word for word in words.split()]
        done = mlxbun(*before, *named, *behind, environ={**spied, **reachable, **variables})
        assert hub.log == []
    switch = next(iter(variables), "--offline")
    assert (done.returncode, done.stdout) == (6, "")
    sentence, *hint = done.stderr.splitlines()
    assert f"{switch} is set" in sentence
    assert len(hint) <= 1
    assert not Path(spied["CONNECTIONS"]).exists()


def test_offline_what_is_here_works(spied: Environ, tmp_path: Path) -> None:
    model = str(make_model(tmp_path / "model"))
    with FakeHub() as hub:
        environ = {**spied, "HF_ENDPOINT": hub.url}
        for words in (("generate", model, "hello", "--max-tokens", "2"), ("fit", model), ("ls",)):
            done = mlxbun(*words, "--offline", environ=environ)
            assert done.returncode == 0, done.stderr
        assert hub.log == []
    assert not Path(spied["CONNECTIONS"]).exists()


def test_the_spy_sees_a_connection(spied: Environ) -> None:
    with FakeHub() as hub:
        mlxbun("download", "org/nothing", environ={**spied, "HF_ENDPOINT": hub.url})
    assert "127.0.0.1" in Path(spied["CONNECTIONS"]).read_text()


# Streams


@pytest.mark.parametrize("words", [*_COMMANDS, "ls --json --no-such-option"])
def test_a_reader_that_is_gone(words: str, environ: Environ) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [SCRIPT, *words.split()],
        env=environ,
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(theirs)
    if "no-such" in words:
        assert done.returncode == 2
        assert done.stderr.startswith("mlxbun: No such option")
    else:
        assert (done.returncode, done.stderr) == (141, "")


def test_help_that_is_read_in_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write_the_last_line(*_: object) -> None:
        raise BrokenPipeError  # Typer ends help with an empty line of its own

    monkeypatch.setattr("mlxbun_cli.app.invoke", write_the_last_line)
    assert run(["generate", "--help"]) == 141
    assert capsys.readouterr().err == ""


def test_head(environ: Environ, tmp_path: Path) -> None:
    for number in range(200):  # more than a pipe holds
        _add(tmp_path, f"org/name-{number:03}")
    done = _sh("mlxbun ls --json | head -1; echo ${PIPESTATUS[0]}", environ)
    assert (done.stdout, done.stderr) == ("{\n141\n", "")


@pytest.mark.parametrize("words", _COMMANDS)
def test_a_full_disk_behind_stdout(words: str, environ: Environ) -> None:
    done = _sh(f"mlxbun {words} >/dev/full", environ)
    assert done.returncode == 1
    assert done.stderr == "mlxbun: The output cannot be written: No space left on device.\n"


@pytest.mark.parametrize("words", _COMMANDS)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(words: str, closed: str, environ: Environ) -> None:
    done = _sh(f"mlxbun {words} {closed}", environ)
    assert done.returncode == 0
    assert not done.stdout or closed == "2>&-"


def test_nothing_is_written_into_what_takes_the_place_of_a_closed_stream(environ: Environ) -> None:
    database = Path(environ["HOME"]) / ".cache" / "mlxbun" / "library.db"
    for closed in (">&-", "<&- >&- 2>&-"):
        assert _sh(f"mlxbun ls {closed}", environ).returncode == 0
        assert database.read_bytes().startswith(b"SQLite format 3\0")
        assert b"org/name  " not in database.read_bytes()
    assert "org/name" in mlxbun("ls", environ=environ).stdout


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-"])
def test_an_error_that_cannot_be_told_keeps_its_code(where: str, environ: Environ) -> None:
    assert _sh(f"mlxbun ls --no-such-option {where}", environ).returncode == 2
    assert _sh(f"mlxbun fit no/such --offline {where}", environ).returncode == 6


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode(encoding: str, environ: Environ, tmp_path: Path) -> None:
    make_model(tmp_path / "models" / "Müller-日本")
    narrow = {
        **environ,
        "PYTHONIOENCODING": encoding,
        "MLXBUN_MODEL_FOLDERS": str(tmp_path / "models"),
    }
    assert _sh("mlxbun ls | cat -v", narrow).returncode == 0
    done = subprocess.run([SCRIPT, "ls", "--json"], env=narrow, capture_output=True, check=False)
    names = [model["id"] for model in json.loads(done.stdout.decode(encoding))["models"]]
    assert "Müller-日本" in names


# Colors and bars


def _in_terminal(words: str, environ: Mapping[str, str]) -> str:
    """Return what a command writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [SCRIPT, *words.split()], env=environ, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # how Linux tells the end of a terminal
            while chunk := os.read(ours, 65536):
                shown += chunk
        os.close(ours)
        assert process.wait(60) == 0
    return shown.decode()


@pytest.mark.parametrize("words", ["ls", "config show", "--help", "ls --help", "fit", "gc"])
def test_colors_on_a_terminal_unless_somebody_objects(words: str, environ: Environ) -> None:
    environ |= {"TERM": "xterm", "COLUMNS": "100"}
    if words != "gc":  # which finds nothing here
        assert "\x1b[" in _in_terminal(words, environ)
    for objection in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in _in_terminal(words, {**environ, **objection, "FORCE_COLOR": "1"})


@pytest.mark.parametrize("words", ["ls", "config show", "--help", "ls --help", "fit", "gc"])
def test_no_colors_in_a_pipe(words: str, environ: Environ) -> None:
    insisting = {"FORCE_COLOR": "1", "GITHUB_ACTIONS": "true", "CLICOLOR_FORCE": "1"}
    done = mlxbun(*words.split(), environ={**environ, **insisting, "TERM": "xterm"})
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "╭" not in done.stdout


@pytest.mark.parametrize("objection", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_bars(objection: Environ, environ: Environ) -> None:
    with FakeHub() as hub:
        hub.add("org/other", {"config.json": b"{}", "model.safetensors": b"\2" + bytes(7) + b"{}"})
        drawn = {**environ, "HF_ENDPOINT": hub.url, "TERM": "xterm", "COLUMNS": "100"}
        shown = _in_terminal("download org/other", {**drawn, **objection})
    assert ("\x1b" in shown) == (not objection)
    assert "model.safetensors: 10 B, checked" in shown
