"""Two processes and an editor write at once: every byte of all is in git or in the file."""

from __future__ import annotations

import hashlib
import multiprocessing
import time
from pathlib import Path

import pytest

from core.errors import VaultChanged
from core.memory import swap
from core.memory.git import Git
from core.memory.writer import Change, editing
from tests.core.memory.repositories import new_vault, user_git

ADA = "articles/Ada.md"
_ROUNDS, _SAVES = 6, 60


def _write(root: Path, name: str, rounds: int, native: bool) -> None:
    """Add lines to one article, planned again for as long as an editor is faster."""
    if not native:
        swap._system_exchange = lambda: None  # type: ignore[assignment]
    for number in range(rounds):
        while True:
            try:
                with editing(root, wait=120) as edit:
                    data = (root / ADA).read_bytes()
                    change = Change(
                        path=ADA,
                        before=hashlib.sha256(data).hexdigest(),
                        after=data.decode() + f"{name} {number}.\n",
                    )
                    edit.commit([change], f"{name} {number}", run=name)
                break
            except (VaultChanged, FileNotFoundError):
                continue


def _edit(root: Path, saves: int) -> None:
    """Save an article as editors do: in place, and by renaming a new file over it."""
    file = root / ADA
    for number in range(saves):
        time.sleep(0.6 if number % 5 == 0 else 0.01)  # in bursts, so that others get a turn
        try:
            text = file.read_text() + f"editor {number}.\n"
        except FileNotFoundError:  # between two names, where the system cannot exchange them
            text = f"editor {number}.\n"
        if number % 2:
            with file.open("w") as opened:
                time.sleep(0.002)  # the file is empty for a moment
                opened.write(text)
        else:
            beside = root / ".save"
            beside.write_text(text)
            beside.replace(file)


def _seen(root: Path) -> str:
    """Return all that any version of the article says."""
    hashes = user_git(root, "log", "--all", "--format=%H", "--", ADA).split()
    versions = Git(root).blobs(f"{each}:{ADA}" for each in hashes)
    return b"".join(data or b"" for data in versions).decode() + (root / ADA).read_text()


@pytest.mark.parametrize("native", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_byte_is_in_git_or_in_the_file(tmp_path: Path, native: bool) -> None:
    root = new_vault(tmp_path, Ada="# Ada\n")
    (root / ".gitignore").write_text(".save\n")
    forked = multiprocessing.get_context("fork")
    names = ("one", "two")
    processes = [
        *(forked.Process(target=_write, args=(root, name, _ROUNDS, native)) for name in names),
        forked.Process(target=_edit, args=(root, _SAVES)),
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(200)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    with editing(root):
        pass
    seen = _seen(root)
    for name, rounds in ((names[0], _ROUNDS), (names[1], _ROUNDS), ("editor", _SAVES)):
        missing = [number for number in range(rounds) if f"{name} {number}.\n" not in seen]
        assert missing == [], name
    assert user_git(root, "status", "--porcelain") == ""
    user_git(root, "fsck", "--strict")
