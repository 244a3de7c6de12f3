"""Waiting for a lock on a vault, and what the disk refuses as one sentence."""

from __future__ import annotations

import errno
import fcntl
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from core.errors import MlxbunError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_POLL_SECONDS = 0.05
_HELD = (errno.EAGAIN, errno.EACCES)


def acquire(descriptor: int, *, wait: float) -> bool:
    """Take the lock of an open file or folder, which ends when it is closed.

    A file system without locks counts as free: git's own lock remains (`Placing.locked`).

    Args:
        descriptor: the file.
        wait: seconds to wait while others hold it.

    Returns:
        False if others held it all the time.
    """
    until = time.monotonic() + wait
    while not _try_lock(descriptor):
        if time.monotonic() >= until:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno not in _HELD
    return True


@contextmanager
def disk_errors(root: Path, action: str) -> Iterator[None]:
    """Raise what the disk refuses in the block as one sentence.

    Args:
        root: the vault.
        action: what cannot be done to it: `written`.

    Raises:
        MlxbunError: instead of an OSError.
    """
    try:
        yield
    except OSError as problem:
        hint = "Free some disk space." if problem.errno == errno.ENOSPC else None
        reason = problem.strerror or str(problem)
        name = f" ({problem.filename})" if problem.filename else ""
        message = f"The memory vault {root} cannot be {action}: {reason}{name}."
        raise MlxbunError(message, hint=hint) from problem
