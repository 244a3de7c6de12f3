"""`kill -9` between any two steps: the vault is as before or as after, once it is opened again."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from core.memory import swap
from core.memory.git import Git
from core.memory.writer import Change, editing
from tests.core.memory.repositories import new_vault, sha, user_git

_EVENTS = ("open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.chmod", "subprocess.Popen")
_TEXTS = {
    "articles/Ada.md": ("Ada.\n", "Ada!\n"),
    "articles/Bob.md": ("Bob.\n", None),
    "articles/Cleo.md": (None, "Cleo.\n"),
    "articles/Dora.md": ("Dora.\n", "Dora!\n"),
}


def _change(root: Path) -> None:
    changes = [
        Change(path=path, before=None if before is None else sha(before), after=after)
        for path, (before, after) in _TEXTS.items()
    ]
    with editing(root) as edit:
        edit.commit(changes, "Change all", run="r")


def _is_step(event: str, args: tuple[object, ...]) -> bool:
    """Return whether a process is about to change something, or to let git do so."""
    if event == "open":
        mode, flags = args[1], args[2]
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        return bool(writes) or (isinstance(mode, str) and mode[:1] in "wxa")
    return event in _EVENTS or event == "ctypes.call_function"


def _killed(work: Callable[[], None], step: int) -> bool:
    """Do some work in a process that is killed before a step; return whether it got so far."""
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            seen = 0

            def count(event: str, args: tuple[object, ...]) -> None:
                nonlocal seen
                if _is_step(event, args):
                    seen += 1
                    if seen == step:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _state(root: Path) -> list[str | None]:
    files = [root / path for path in _TEXTS]
    return [file.read_text() if file.exists() else None for file in files]


_BEFORE = [before for before, _ in _TEXTS.values()]
_AFTER = [after for _, after in _TEXTS.values()]


def _prepared(folder: Path) -> Path:
    root = new_vault(folder, Ada="Ada.\n", Bob="Bob.\n", Dora="Dora.\n")
    with editing(root):
        pass
    (root / "typed.md").write_text("typed\n")
    return root


def _check_all_steps(tmp_path: Path, work: Callable[[Path], None], *, every: int) -> int:
    template = _prepared(tmp_path / "template")
    root = tmp_path / "v"
    step = 1
    while True:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(template, root, symlinks=True)
        if not _killed(lambda: work(root), step):
            assert _state(root) == _AFTER
            return step
        with editing(root, wait=60):
            pass
        head = Git(root).head()
        shown = Git(root)
        committed = [shown.show(str(head), path) for path in _TEXTS]
        texts = [None if data is None else data.decode() for data in committed]
        where = f"killed before step {step}"
        assert _state(root) == texts, where
        assert texts in (_BEFORE, _AFTER), where
        assert shown.show(str(head), "typed.md") == b"typed\n", where
        assert user_git(root, "status", "--porcelain") == "", where
        assert not (root / ".git" / "index.lock").exists(), where
        _change(root) if texts == _BEFORE else None
        step += every


@pytest.mark.slow  # about a minute each: a hundred processes are killed
@pytest.mark.parametrize("native", [True, False])
def test_killed_before_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: bool
) -> None:
    if not native:
        monkeypatch.setattr(swap, "_system_exchange", lambda: None)
    assert _check_all_steps(tmp_path, _change, every=1) > 50


def test_killed_before_some_steps(tmp_path: Path) -> None:
    assert _check_all_steps(tmp_path, _change, every=11) > 50
