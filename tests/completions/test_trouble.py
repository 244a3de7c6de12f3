"""Tab is quick, quiet and harmless, whatever is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from mlxbun_cli.completion.command import answer_tab
from tests.caches import add_model
from tests.processes import SCRIPT, environ_of

HEAVY = {
    "anyio", "huggingface_hub", "httpx", "httpx2", "litestar", "mlx", "mlx_lm", "msgspec", "numpy",
    "pydantic", "rich", "socket", "ssl", "tokenizers", "tomlkit", "transformers", "typer",
}  # fmt: skip
PROBE = """
import json, sys
happened = []
sys.addaudithook(lambda event, _: happened.append(event))
from mlxbun_cli import main
from mlxbun_cli.completion.command import answer_tab
code = answer_tab(sys.argv[1:])
print("\\n" + json.dumps([code, sorted(sys.modules), sorted(set(happened))]))
"""
MANY = """
import json, sys
from mlxbun_cli.completion.command import answer_tab
codes = [answer_tab(line) for line in json.loads(sys.argv[1])]
print("\\n" + json.dumps(codes))
"""
LINES = [
    ["zsh", "s"],
    ["zsh", "serve", "--"],
    ["zsh", "serve", ""],
    ["zsh", "serve", "org/name@"],
    ["zsh", "gc", ""],
    ["zsh", "download", ""],
    ["zsh", "ls", "--type", ""],
    ["zsh", "stop", ""],
    ["zsh", "chat", "--resume", ""],
    ["zsh", "config", "set", ""],
    ["zsh", "config", "set", "prefill", ""],
    ["zsh", "fit", "--sku", "M"],
    ["bash", "mlxbun serve ", ""],
    ["fish", "serve", ""],
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a home with one model and settings."""
    home = tmp_path / "home"
    add_model(home / ".cache" / "huggingface" / "hub", "org/name")
    (home / ".mlxbun").mkdir()
    (home / ".mlxbun" / "config.toml").write_text("port = 9000\n")
    return home


def tab(*words: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, "__complete", *words],
        env=dict(environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def state(home: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of every file."""
    files = (path for path in home.rglob("*") if path.is_file())
    told = ((str(path.relative_to(home)), path.stat()) for path in files)
    return {name: (status.st_size, status.st_mtime_ns) for name, status in told}


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_it_is_light_and_touches_nothing(home: Path, line: list[str]) -> None:
    before = state(home)
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *line],
        env=environ_of(home),
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules, events = json.loads(done.stdout.splitlines()[-1])
    assert (code, done.stderr) == (0, "")
    assert HEAVY & set(modules) == set()
    assert [event for event in events if event.startswith(("socket.", "subprocess."))] == []
    changed = state(home).items() ^ before.items()
    assert {name.split("/")[-1] for name, _ in changed} <= {"library.db"}


def garbage(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x00\xffgarbage" * 400)


def folder_instead(path: Path) -> None:
    path.mkdir(parents=True)


def file_instead(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def unknown_settings(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("no_such = 1\nport = 'x'\n")


TROUBLES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "an index that is none": (".cache/mlxbun/library.db", garbage),
    "a folder as index": (".cache/mlxbun/library.db", folder_instead),
    "a file as cache": (".cache/mlxbun", file_instead),
    "a file as Hugging Face cache": ("hub-cache", file_instead),
    "settings that are none": (".mlxbun-broken/config.toml", garbage),
    "a folder as settings": (".mlxbun-broken/config.toml", folder_instead),
    "settings that there are not": (".mlxbun-broken/config.toml", unknown_settings),
    "a server's file that is none": (".mlxbun-broken/run/1.json", garbage),
    "a file as conversations": (".mlxbun-broken/sessions", file_instead),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_whatever_is_wrong_is_not_told(home: Path, trouble: str) -> None:
    place, make = TROUBLES[trouble]
    make(home / place)
    environ = environ_of(home)
    if place.startswith(".mlxbun-broken"):
        environ["MLXBUN_HOME"] = str(home / ".mlxbun-broken")
    if place == "hub-cache":
        environ["HF_HUB_CACHE"] = str(home / "hub-cache")
    done = subprocess.run(
        [sys.executable, "-c", MANY, json.dumps(LINES)],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout.splitlines()[-1]) == [0] * len(LINES)


def test_models_are_offered_although_the_settings_are_wrong(home: Path) -> None:
    garbage(home / ".mlxbun" / "config.toml")
    assert "org/name" in tab("zsh", "serve", "", environ=environ_of(home)).stdout


def test_models_are_offered_although_the_index_cannot_be_kept(home: Path) -> None:
    file_instead(home / ".cache" / "mlxbun")
    assert "org/name" in tab("zsh", "serve", "", environ=environ_of(home)).stdout


def test_nobody_has_a_home(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in [*os.environ]:
        if name.startswith(("HOME", "MLXBUN_", "HF_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(Path, "home", nowhere)
    assert answer_tab(["zsh", "serve", ""]) == 0
    assert capsys.readouterr() == ("", "")
    assert answer_tab(["zsh", "se"]) == 0
    assert "serve" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [[], ["zsh"], ["tcsh", "s"], ["bash"], ["bash", "x"], ["fish", "\udcff"]]
)
def test_a_call_that_means_nothing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert answer_tab(words) == 0
    assert capsys.readouterr().err == ""


def test_a_closed_stdout(home: Path) -> None:
    command = f"'{SCRIPT}' __complete zsh s >&-"
    done = subprocess.run(
        ["sh", "-c", command], env=environ_of(home), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_who_debugs_sees_what_is_wrong(home: Path) -> None:
    done = tab("zsh", environ={**environ_of(home), "MLXBUN_DEBUG": "1"})
    assert done.returncode == 1
    assert "IndexError" in done.stderr
