"""A model folder from outside: which files, how large, and whether anything changed since.

Opens nothing. The fingerprint covers everything that reading the folder depends on: whatever adds,
removes, replaces or rewrites a file gives another one, because a file's change time cannot be set.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_DEEPEST = 8  # levels of folders; a model has two or three
_MOST_ENTRIES = 50_000
_CLOCK_STEP = 2.0  # seconds between two changes that a file system may give the same time


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a folder holds, counted without opening anything."""

    fingerprint: bytes
    """Differs when any file does."""
    blobs: Mapping[tuple[int, int], int] = field(repr=False)
    """Bytes of each distinct file, by device and inode; links count as what they lead to."""
    modified: float
    """When the newest content was written, in seconds since 1970; the folder's, if it is empty."""
    changed: float
    """When anything about a file last changed, as the system keeps it, in seconds since 1970."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all distinct files."""
        return sum(self.blobs.values())

    def settled(self, now: float | None = None) -> bool:
        """Return whether a change from now on is sure to give another fingerprint.

        A file that was written a moment ago can be written again within the same tick.
        """
        return abs((time.time() if now is None else now) - self.changed) > _CLOCK_STEP


def survey(folder: Path) -> Survey:
    """Return what a folder holds. What cannot be looked at is part of the fingerprint, too.

    Raises:
        OSError: the folder itself cannot be looked at.
    """
    walk = _Walk(folder.stat())
    walk.enter(_Folder(os.fspath(folder), "", 0))
    # Breadth first: if there is too much, it is what lies deepest that is left out.
    while walk.ahead and len(walk.lines) < _MOST_ENTRIES:
        walk.enter_or_tell(walk.ahead.popleft())
    return walk.result()


class _Folder(NamedTuple):
    path: str
    prefix: str
    depth: int


class _Walk:
    def __init__(self, top: os.stat_result) -> None:
        self.ahead: deque[_Folder] = deque()
        self.lines: list[str] = []
        self._top = top
        self._blobs: dict[tuple[int, int], int] = {}
        self._modified = self._changed = 0.0

    def enter_or_tell(self, folder: _Folder) -> None:
        try:
            self.enter(folder)
        except OSError as problem:
            self.lines.append(f"{folder.prefix}\0{problem.errno}")

    def enter(self, folder: _Folder) -> None:
        with os.scandir(folder.path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            self._add(entry, folder)

    def _add(self, entry: os.DirEntry[str], folder: _Folder) -> None:
        name = folder.prefix + entry.name
        try:
            status = entry.stat()
        except OSError as problem:  # a link to nothing, or a loop of links
            self.lines.append(f"{name}\0{problem.errno}")
            return
        if not stat.S_ISDIR(status.st_mode):
            self._add_file(name, status)
            return
        self.lines.append(name + "/")
        if folder.depth < _DEEPEST and not entry.is_symlink():
            self.ahead.append(_Folder(entry.path, name + "/", folder.depth + 1))

    def _add_file(self, name: str, status: os.stat_result) -> None:
        times = f"{status.st_mtime_ns}\0{status.st_ctime_ns}"
        self.lines.append(f"{name}\0{stat.S_IFMT(status.st_mode)}\0{status.st_size}\0{times}")
        if stat.S_ISREG(status.st_mode):
            self._blobs[status.st_dev, status.st_ino] = status.st_size
            self._modified = max(self._modified, status.st_mtime)
        self._changed = max(self._changed, status.st_ctime)

    def result(self) -> Survey:
        told = os.fsencode("\0\0".join(self.lines))
        return Survey(
            fingerprint=hashlib.blake2b(told, digest_size=16).digest(),
            blobs=self._blobs,
            modified=self._modified or self._top.st_mtime,
            changed=self._changed or self._top.st_ctime,
        )
