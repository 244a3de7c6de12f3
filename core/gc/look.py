"""Looking at a disk without following links and without leaving a folder's own disk."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.gc.seen import Entry, Form

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.gc.seen import Key

_DEEPEST = 64  # levels of folders; more are somebody's joke
_MOUNTS = Path("/proc/self/mountinfo")


class Obstacle(Exception):
    """Something is not as a deletion needs it; its text is a clause that says what."""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A folder in which things may be deleted, and where it ends."""

    root: Path
    """The folder, links in its path followed."""
    device: int
    """Its disk."""
    mounts: frozenset[str] = frozenset()
    """Folders in it at which something else is mounted, also of the same disk."""

    def check(self, entry: Entry) -> None:
        """Check that a folder still belongs to it.

        Raises:
            Obstacle: it is a link, no folder, or another disk begins there.
        """
        name = entry.path.name
        if entry.form is Form.LINK:
            raise Obstacle(f"{name} is a link, and what it leads to is left alone")
        if entry.form is not Form.FOLDER:
            raise Obstacle(f"{name} is no folder")
        if entry.key[0] != self.device or str(entry.path) in self.mounts:
            raise Obstacle(f"another disk is mounted at {name}")


def ground_at(folder: Path) -> Ground:
    """Return the ground that a folder is. Links in its own path are followed: it was named.

    Raises:
        OSError: there is no such folder, or it cannot be looked at.
    """
    root = Path(os.path.realpath(folder))
    device = root.stat().st_dev
    inside = f"{root}{os.sep}"
    return Ground(
        root=root,
        device=device,
        mounts=frozenset(path for path in _mounts() if path.startswith(inside)),
    )


def look_at(path: Path) -> Entry:
    """Return what lies at a path; a link is looked at, not through.

    Raises:
        OSError: there is nothing, or it cannot be looked at.
    """
    return entry_of(path, path.lstat())


def look_into(folder: Path) -> list[Entry]:
    """Return what lies in a folder, by name.

    Raises:
        OSError: it cannot be read.
    """
    with os.scandir(folder) as found:
        entries = [(each.name, each.stat(follow_symlinks=False)) for each in found]
    return [entry_of(folder / name, status) for name, status in sorted(entries)]


def entry_of(path: Path, status: os.stat_result) -> Entry:
    """Return what a `stat` tells of a path."""
    return Entry(
        path=path,
        form=_form(status.st_mode),
        key=(status.st_dev, status.st_ino),
        size=status.st_size if stat.S_ISREG(status.st_mode) else 0,
        modified_ns=status.st_mtime_ns,
        names=status.st_nlink,
        # Looking itself counts as reading a folder or a link, and shall not count as use.
        last_used=max(status.st_atime, status.st_mtime)
        if stat.S_ISREG(status.st_mode)
        else status.st_mtime,
    )


def look_at_whole(entry: Entry, ground: Ground) -> Entry:
    """Return a folder with everything in it as one thing; anything else as it is.

    Raises:
        Obstacle: it leads out of the ground.
        OSError: a part of it cannot be looked at.
    """
    if entry.form is not Form.FOLDER:
        return entry
    parts: list[Entry] = []
    walk(entry, ground, parts.append)
    return replace(
        entry,
        size=sum(part.size for part in parts if part.names == 1),
        modified_ns=max(part.modified_ns for part in (entry, *parts)),
        last_used=max(part.last_used for part in (entry, *parts)),
    )


def walk(folder: Entry, ground: Ground, visit: Callable[[Entry], object]) -> None:
    """Visit everything in a folder, also in the folders in it.

    Raises:
        Obstacle: another disk begins there, or it is too deep.
        OSError: a folder cannot be read.
    """
    _walk(folder, ground, visit, _DEEPEST)


def content_of(path: Path) -> Key | None:
    """Return what is found at a path through all links; None: nothing."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def target_of(link: Path) -> Path:
    """Return where a link says that it leads, as text.

    Raises:
        OSError: it is no link, or cannot be read.
    """
    return Path(os.path.normpath(link.parent / link.readlink()))


class Ways:
    """Follows links one step at a time, and remembers the folders on the way."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def hop(self, link: Path) -> Path:
        """Return where a link leads, with the links in the path to there followed.

        Raises:
            OSError: it is no link, or cannot be read.
        """
        return self.follow(link)[0]

    def follow(self, link: Path) -> tuple[Path, Path]:
        """Return where a link leads, with the links in the path to there followed, and as text.

        Raises:
            OSError: it is no link, or cannot be read.
        """
        target = str(link.parent / link.readlink())
        said = os.path.normpath(target)
        head, tail = os.path.split(target)
        if tail in ("", ".", ".."):
            return Path(os.path.realpath(target)), Path(said)
        if head not in self._real:
            self._real[head] = os.path.realpath(head)
        hop = os.path.normpath(f"{self._real[head]}/{tail}")
        first = Path(hop)
        return first, first if hop == said else Path(said)


def _walk(folder: Entry, ground: Ground, visit: Callable[[Entry], object], depth: int) -> None:
    if depth == 0:
        raise Obstacle(f"{folder.path.name} lies too deep")
    for entry in look_into(folder.path):
        visit(entry)
        if entry.form is Form.FOLDER:
            ground.check(entry)
            _walk(entry, ground, visit, depth - 1)


def _form(mode: int) -> Form:
    if stat.S_ISREG(mode):
        return Form.FILE
    if stat.S_ISLNK(mode):
        return Form.LINK
    return Form.FOLDER if stat.S_ISDIR(mode) else Form.OTHER


def _mounts() -> list[str]:
    """Return where something is mounted. Source: proc(5), field 5 of /proc/PID/mountinfo."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:  # not on Linux: disks are told apart by their numbers alone
        return []
    places = [line.split(b" ")[4] for line in lines if line.count(b" ") > 4]
    return [os.fsdecode(_plain(place)) for place in places]


def _plain(escaped: bytes) -> bytes:
    r"""Return a path of mountinfo as it is: blanks and the like stand there as `\040`."""
    return escaped.decode("unicode_escape").encode("latin-1") if b"\\" in escaped else escaped
