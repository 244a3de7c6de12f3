"""A home with models, settings, conversations and a server that runs."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.servers import process_born
from tests.caches import add_model
from tests.processes import SCRIPT, environ_of

REPOSITORIES = (
    "mlx-community/Qwen3-4B-4bit",
    "mlx-community/Qwen3-8B-4bit",
    "mlxbun/SmolLM2-135M-Instruct-4bit",
    "other/SmolVLM",
)
ODD_NAMES = (
    "My Model",
    "it's `x`",
    "back\\slash",
    'q"uote',
    "a!b",
    "uml äut",
    "col:on",
    "at@home",
    "$(touch pwned)",
    "\\$(touch pwned)",
)
UNSHOWABLE = ("esc\x1b[31m", "new\nline")
SESSIONS = ("2026-11-28_10-00-00_hello", "2026-11-29_16-40-07_why-is-the-sky-blue")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home in which there is something of everything."""
    home = tmp_path_factory.mktemp("tab") / "home"
    hub = home / ".cache" / "huggingface" / "hub"
    for repo_id in REPOSITORIES:
        snapshot = add_model(hub, repo_id)
    add_model(hub, REPOSITORIES[0], commit="b" * 40, ref="v2/beta")
    for name in (*ODD_NAMES, *UNSHOWABLE):
        shutil.copytree(snapshot, home / "models" / name)
    ours = home / ".mlxbun"
    (ours / "sessions").mkdir(parents=True)
    (ours / "config.toml").write_text(f'model_folders = ["{home / "models"}"]\n')
    for at, name in enumerate(SESSIONS):
        file = ours / "sessions" / f"{name}.jsonl"
        file.write_text("")
        os.utime(file, (at, at))
    return home


@pytest.fixture(scope="session")
def environ(home: Path) -> dict[str, str]:
    """Return an environment in which `mlxbun` is found and that home is the user's."""
    found = environ_of(home)
    return {**found, "PATH": f"{Path(SCRIPT).parent}{os.pathsep}{found['PATH']}"}


@pytest.fixture
def server(home: Path) -> Iterator[int]:
    """Have a server run, as far as its file tells: this process. Return its pid."""
    pid = os.getpid()
    told = {
        "pid": pid,
        "born": process_born(pid),
        "url": "http://127.0.0.1:9123",
        "model": "mlxbun/SmolLM2-135M-Instruct-4bit",
        "started_at": time.time(),
    }
    file = home / ".mlxbun" / "run" / f"{pid}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(told))
    yield pid
    file.unlink()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file and a folder in it, both with a space in their names."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "sub folder").mkdir()
    (folder / "some file").touch()
    return folder
