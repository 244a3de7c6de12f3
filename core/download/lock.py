"""One program at a time fetches a blob: the lock that huggingface_hub takes too.

Source: huggingface_hub's `WeakFileLock`, which is `flock(2)` on the same file. The system frees it
when its holder dies. Where a disk has no locks there is none, there as here: contents are checked
by their hash before they count.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

_POLL_SECONDS = 0.2
_HELD = (errno.EAGAIN, errno.EACCES)


@asynccontextmanager
async def blob_lock(path: Path, *, on_wait: Callable[[], None]) -> AsyncIterator[None]:
    """Hold a lock file while the block runs.

    Args:
        path: the file; it stays, as huggingface_hub's do.
        on_wait: called once when somebody else holds it.

    Raises:
        OSError: the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    told = False
    while (descriptor := _try_lock(path)) is None:
        if not told:
            on_wait()
            told = True
        await asyncio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    """Return an open file that is locked, or None while another program holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o664)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno in _HELD:
            os.close(descriptor)
            return None
        return descriptor  # no locks on this disk
    if _is_still_there(path, descriptor):
        return descriptor
    os.close(descriptor)  # somebody has tidied it away in between
    return None


def _is_still_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
