"""Marks of what is forgotten: keyed hashes in a file that outlives the caches.

The file lies beside the vault's key (`core.memory.redact.key`). Without it, a cache that is deleted
would bring back what the user wanted gone, the next time its source is read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from core.errors import StoreCorrupt
from core.registry.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_LARGEST = 64 * 2**20


class ForgottenMarks:
    """The marks of one vault; lines are only ever appended."""

    def __init__(self, path: Path) -> None:
        """Name the file; it is made when there is something to forget."""
        self._path = path
        self._read: tuple[tuple[int, int], frozenset[str]] | None = None

    def add(self, marks: Iterable[str]) -> None:
        """Append marks, and return when they are on the disk.

        Raises:
            StoreCorrupt: the file cannot be read or written.
        """
        wanted = list(dict.fromkeys(marks))
        new = [mark for mark in wanted if mark not in self.known(wanted)]
        if not new:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(self._path, flags, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                # A line that a crash cut short must not swallow the first mark.
                file.write(b"\n" + b"".join(mark.encode() + b"\n" for mark in new))
                file.flush()
                os.fsync(file.fileno())
        except OSError as problem:
            raise self._failure("written", problem) from problem

    def known(self, marks: Iterable[str]) -> frozenset[str]:
        """Return those of some marks that are in the file.

        Raises:
            StoreCorrupt: the file is there and cannot be read: what is forgotten is not known.
        """
        return frozenset(marks) & self._all()

    def _all(self) -> frozenset[str]:
        try:
            state = self._path.stat()
            stamp = (state.st_size, state.st_mtime_ns)
            if self._read is None or self._read[0] != stamp:
                data = read_bytes(self._path, limit=_LARGEST)
                self._read = (stamp, frozenset(data.decode("ascii", "replace").split()))
        except FileNotFoundError:
            return frozenset()
        except OSError as problem:
            raise self._failure("read", problem) from problem
        return self._read[1]

    def _failure(self, done: str, problem: OSError) -> StoreCorrupt:
        return StoreCorrupt(
            f"The list of what is forgotten, {self._path}, cannot be {done}: {problem.strerror}.",
            hint="Make it accessible, or restore it from a backup.",
        )
