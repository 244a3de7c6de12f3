"""Who holds a lock: told by the system, or, on a disk without such locks, by the file itself."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import SoftFileLock

from core.gc.locks import holding, holding_existing, is_held
from tests.core.gc.box import Box, age, mishaps


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the disk one without locks."""

    def refuse(*_arguments: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.fixture
def dead() -> int:
    """Return the number of a process that is gone."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def test_a_lock_is_held_while_somebody_holds_it(tmp_path: Path) -> None:
    lock = tmp_path / "folder" / "a.lock"
    assert not is_held(lock)
    with holding(lock) as held:
        assert held
        assert is_held(lock)
        with holding(lock) as again:
            assert not again
        with holding_existing(lock) as again:
            assert not again
        assert lock.exists()
    assert not lock.exists()


def test_a_lock_file_of_others_stays(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    lock.touch()
    with holding(lock) as held:
        assert held
    assert lock.exists()
    with holding(lock, is_ours=True) as held:
        assert held
    assert not lock.exists()


def test_a_lock_that_went_meanwhile_is_not_held(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    lock.touch()
    lock.unlink()
    with pytest.raises(FileNotFoundError), holding_existing(lock):
        pass


def test_links_are_no_locks(tmp_path: Path) -> None:
    (tmp_path / "a.lock").symlink_to(tmp_path / "elsewhere")
    assert is_held(tmp_path / "a.lock")
    with pytest.raises(OSError, match="symbolic link"), holding(tmp_path / "a.lock"):
        pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.usefixtures("no_locks")
def test_without_locks_the_file_of_a_living_process_is_one(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    with SoftFileLock(lock):
        assert str(os.getpid()) in lock.read_text()
        assert is_held(lock)
        with holding(lock) as held:
            assert not held
    assert not is_held(lock)


@pytest.mark.usefixtures("no_locks")
def test_without_locks_our_file_is_one(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    with holding(lock) as held:
        assert held
        assert is_held(lock)
        with holding(lock) as again:
            assert not again
    assert not lock.exists()


@pytest.mark.usefixtures("no_locks")
def test_without_locks_there_is_tidying_all_the_same(box: Box) -> None:
    old = box.pair()
    assert not mishaps(box.gc())
    assert not old.exists()
    assert box.plan().items == ()


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("form", ["{pid}\n{host}\n", "v1\npid={pid}\nhost={host}\nmode=x\n"])
def test_without_locks_that_of_a_dead_process_is_none(tmp_path: Path, dead: int, form: str) -> None:
    lock = tmp_path / "a.lock"
    lock.write_text(form.format(pid=dead, host=platform.node()))
    assert not is_held(lock)
    lock.write_text(form.format(pid=os.getpid(), host=platform.node()))
    assert is_held(lock)


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("content", ["", "garbage", "pid=1\nhost=another-machine\n"])
def test_without_locks_those_of_nobody_known_are_ones_for_a_day(
    tmp_path: Path, content: str
) -> None:
    lock = tmp_path / "a.lock"
    lock.write_text(content)
    assert is_held(lock)
    age(lock, 2)
    assert not is_held(lock)
