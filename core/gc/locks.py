"""Lock files of huggingface_hub and of our own downloads: who holds one, and holding one ourselves.

Source: the `filelock` package, which huggingface_hub uses: `flock(2)` on a file that stays; on a
disk without such locks (ENOSYS) the file itself is the lock, and says whose it is.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import re
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from core.servers import process_born

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HELD = (errno.EAGAIN, errno.EACCES)
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST_MARK = 4096  # bytes
_FORGOTTEN_SECONDS = 24 * 3600.0


def is_held(path: Path) -> bool:
    """Return whether somebody holds a lock. One that cannot be looked at counts as held."""
    try:
        descriptor = _open(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return not _take(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def holding(path: Path, *, is_ours: bool = False) -> Iterator[bool]:
    """Hold a lock while the block runs, if nobody else does; yields whether it is held.

    A lock file that was not there is gone afterwards.

    Args:
        path: the lock file.
        is_ours: nobody but us uses it: one that was there is gone afterwards, too.

    Raises:
        OSError: the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, is_new = _open_or_make(path)
    held = False
    try:
        held = (is_new and _mark(descriptor)) or _take(descriptor)
        held = held and _is_still_there(path, descriptor)
        yield held
    finally:
        if held and (is_new or is_ours):  # before it is let go: whoever waits for it looks again
            with suppress(OSError):
                path.unlink()
        os.close(descriptor)


@contextmanager
def holding_existing(path: Path) -> Iterator[bool]:
    """Hold a lock file that is there while the block runs; yields whether it is held.

    Raises:
        OSError: it is not there, or cannot be opened.
    """
    descriptor = _open(path)
    try:
        yield _take(descriptor) and _is_still_there(path, descriptor)
    finally:
        os.close(descriptor)


def _open_or_make(path: Path) -> tuple[int, bool]:
    """Return an open lock file, and whether it is new."""
    flags = os.O_RDWR | _FLAGS
    try:
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o664), True
    except FileExistsError:
        return os.open(path, flags | os.O_CREAT, 0o664), False


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | _FLAGS)
    except PermissionError:
        return os.open(path, os.O_RDONLY | _FLAGS)  # enough for flock but on network disks


def _take(descriptor: int) -> bool:
    """Lock an open file and return whether that could be done: nobody else has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno not in _HELD and not _is_marked(descriptor)
    return True


def _mark(descriptor: int) -> bool:
    """Make a new file the lock itself, and return whether it is: the disk has no other locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno in _HELD:
            return False
        os.write(descriptor, f"{os.getpid()}\n{platform.node()}\n".encode())
        return True
    return False


def _is_marked(descriptor: int) -> bool:
    """Return whether a lock file that is the lock itself belongs to somebody who lives."""
    mark = os.pread(descriptor, _LONGEST_MARK, 0).decode("utf-8", "replace")
    pid = re.search(r"^(?:pid=)?(\d{1,10})$", mark, re.MULTILINE)
    host = re.search(r"^host=(.+)$|^\d+\n(.+)$", mark, re.MULTILINE)
    if pid and host and (host[1] or host[2]) == platform.node():
        return process_born(int(pid[1])) is not None
    # Of another machine, or of nobody: its age has to tell.
    return time.time() - os.fstat(descriptor).st_mtime < _FORGOTTEN_SECONDS


def _is_still_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
