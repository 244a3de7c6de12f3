"""Whether a training runs in a folder: a lock that its process holds. Imports no arrays."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from core.errors import AlreadyRunning

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NAME = ".training.lock"


@contextmanager
def only_training(folder: Path) -> Iterator[None]:
    """Keep other processes from training into a folder within the block.

    Raises:
        AlreadyRunning: one does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _NAME).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(f"Another process trains into {folder} already.") from None
        yield


def is_training(folder: Path) -> bool:
    """Return whether a process trains into a folder now."""
    try:
        with (folder / _NAME).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
