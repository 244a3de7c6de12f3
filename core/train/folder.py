"""The folder that a training writes into: its lock, its checkpoints' names. Imports no arrays."""

from __future__ import annotations

import errno
import fcntl
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from core.errors import AlreadyRunning, MlxbunError, NotFound, UsageProblem
from core.paths import remove_temporary
from core.registry.adapters import WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHECKPOINTS = "checkpoints"
"""Where checkpoints lie in an adapter's folder."""

_LOCK = ".training.lock"
_HELD = (errno.EAGAIN, errno.EACCES)
_CHECKPOINT = re.compile(r"step-(\d{8,})\.safetensors")


@contextmanager
def only_training(folder: Path) -> Iterator[None]:
    """Keep other processes from training into a folder within the block.

    The folder is made where there is none, and goes again if nothing was written into it.

    Raises:
        AlreadyRunning: another process trains into it.
        MlxbunError: it cannot be written.
    """
    try:
        there = folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("w")
    except (OSError, ValueError) as problem:
        raise _unwritable(folder, problem) from problem
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            if problem.errno in _HELD:
                raise AlreadyRunning(f"Another process trains into {folder} already.") from None
            # No locks on this disk: nobody can be kept out.
        remove_temporary(folder)
        remove_temporary(folder / CHECKPOINTS)
        try:
            yield
        finally:
            if not there:
                _remove_if_empty(folder)


def is_training(folder: Path) -> bool:
    """Return whether a process trains into a folder now."""
    try:
        with (folder / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno in _HELD and not isinstance(problem, PermissionError)
    return False


def checkpoints_in(folder: Path) -> list[Path]:
    """Return the checkpoints in an adapter's folder, the oldest first."""
    found = (file for file in (folder / CHECKPOINTS).glob("*") if _CHECKPOINT.fullmatch(file.name))
    return sorted(found, key=lambda file: int(file.stem.removeprefix("step-")))


def require_free(folder: Path, *, resume: bool) -> None:
    """Refuse a folder in which a training cannot begin, or go on: before a model is loaded.

    Raises:
        UsageProblem: an adapter lies there, and it is to begin.
        NotFound: no checkpoint lies there, and it is to go on.
        MlxbunError: no folder can have that name.
    """
    try:
        found = bool(checkpoints_in(folder))
        taken = found or (folder / WEIGHTS).exists()
    except (OSError, ValueError) as problem:
        raise _unwritable(folder, problem) from problem
    if resume and not found:
        raise NotFound(
            f"There is no checkpoint in {folder} to resume from.",
            hint="Leave --resume out to begin.",
        )
    if not resume and taken:
        raise UsageProblem(
            f"{folder} holds an adapter already.",
            hint="Go on with --resume, or name another folder in adapter_path.",
        )


def _unwritable(folder: Path, problem: OSError | ValueError) -> MlxbunError:
    reason = problem.strerror if isinstance(problem, OSError) else problem
    return MlxbunError(
        f"The adapter cannot be written to {folder}: {reason}.",
        hint="Name another folder in adapter_path.",
    )


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        if [each.name for each in folder.iterdir()] == [_LOCK]:
            (folder / _LOCK).unlink()
            folder.rmdir()
