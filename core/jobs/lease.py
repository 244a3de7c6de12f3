"""One of us at a time trains or quantizes: the lease of this user's accelerator.

Jobs queue for it, in the order in which they were asked for; a command in the foreground that
trains or quantizes is refused while another holds it, or waits if it was told to. The lease is a
`flock(2)` on a file, so the system takes it back when its holder dies, whatever the death; the file
also tells who the holder is.

A server that only generates takes no part: its answers go on while a job runs, only slower, as both
share the accelerator, and a fine-tuning can be started from the web while the served model is in
memory. Memory is not shared out between them: a work whose weights alone are beyond the memory
budget fails, and one that may need more says so.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from core.errors import AlreadyRunning, MlxbunError
from core.servers import process_born

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_POLL_SECONDS = 0.5
_HELD = (errno.EAGAIN, errno.EACCES)


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who has the lease."""

    what: str
    """For people: `job 1a2b3c4d (finetune)`, `mlxbun train`."""
    pid: int
    """Its process."""
    born: str
    """When that started, as `core.servers.process_born` tells it."""

    def __str__(self) -> str:
        return f"{self.what}, process {self.pid}"


@contextmanager
def hold_lease(path: Path, *, what: str, on_wait: Callable[[str], None] | None) -> Iterator[None]:
    """Hold the lease while the block runs: for commands in the foreground.

    Args:
        path: `Paths.lease_file`.
        what: who wants it, for people: `mlxbun train`.
        on_wait: None: not to wait. Else called with who is waited for, once for each of them.

    Raises:
        AlreadyRunning: another one has it, and it was not to be waited for.
        MlxbunError: the file cannot be made.
    """
    told = ""
    while (lease := _try_lease(path, what=what)) is None:
        holder = holder_words(path)
        if on_wait is None:
            raise AlreadyRunning(
                f"The accelerator is in use by {holder}.",
                hint="Wait for its end, or end it: `mlxbun jobs list` shows jobs, "
                "`mlxbun jobs cancel` ends one.",
            )
        if holder != told:
            on_wait(holder)
            told = holder
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        lease.release()


def _try_lease(path: Path, *, what: str) -> Lease | None:
    try:
        return try_lease(path, what=what)
    except OSError as problem:
        raise MlxbunError(
            f"{path} cannot be written: {problem.strerror}.",
            hint="Name another folder in MLXBUN_HOME, or let this one be written to.",
        ) from problem


def try_lease(path: Path, *, what: str) -> Lease | None:
    """Return the lease, or None while another one has it.

    Args:
        path: `Paths.lease_file`.
        what: who wants it, for people.

    Raises:
        OSError: the file cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if not _lock(file) or not _is_still_there(path, file):
        os.close(file)
        return None
    pid = os.getpid()
    _tell(file, Holder(what=what, pid=pid, born=process_born(pid) or ""))
    return Lease(file)


class Lease:
    """A lease that is held."""

    def __init__(self, file: int) -> None:
        """Take the locked file."""
        self._file = file

    def release(self) -> None:
        """Let the next one have it."""
        with suppress(OSError):  # a full disk; whoever reads the name asks for the process, too
            os.ftruncate(self._file, 0)
        os.close(self._file)


def lease_holder(path: Path) -> Holder | None:
    """Return who has the lease; None: nobody, or nobody who could write it down."""
    try:
        holder = Holder(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    if not isinstance(holder.pid, int) or process_born(holder.pid) != holder.born:
        return None
    return holder


def holder_words(path: Path) -> str:
    """Return who has the lease, for people."""
    return str(lease_holder(path) or "another mlxbun")


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno not in _HELD  # no locks on this disk: nobody can be kept out
    return True


def _is_still_there(path: Path, file: int) -> bool:
    """Return whether a locked file is the one that others would lock."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _tell(file: int, holder: Holder) -> None:
    with suppress(OSError):  # a full disk: it is held without a name
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(asdict(holder)).encode(), 0)
