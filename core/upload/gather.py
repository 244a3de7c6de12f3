"""The files of a folder that are uploaded, and those that are not, each with its reason.

Links to files are followed: a snapshot of the Hugging Face cache is links to blobs. Links to
folders are not: they can lead anywhere, in circles too. Opens nothing.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BadModelFiles, NotFound
from core.registry.files import printable
from core.upload.belongs import Selection, reason_to_skip, reason_to_stay_out, unmatched

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from core.upload.kinds import Kind

_MOST_FILES = 100_000  # the Hub's own advice for a repository
Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class LocalFile:
    """One file that is uploaded."""

    name: str
    """Its path in the repository, with `/`."""
    path: Path
    """Where it lies."""
    size: int
    """Bytes."""
    stamp: Stamp = field(repr=False)
    """Device, inode, bytes and time of change of its content: another one is another content."""


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """One file or folder that is not uploaded."""

    name: str
    """Its path below the folder; that of a folder ends in `/`."""
    reason: str
    """Why, in a word or two."""
    size: int | None
    """Bytes; None: a folder, or something without a size."""


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """Everything at a path."""

    files: tuple[LocalFile, ...]
    """What is uploaded, by name."""
    skipped: tuple[Skipped, ...]
    """What is not, by name."""


def gather(source: Path, kind: Kind, selection: Selection) -> Gathered:
    """Return what is uploaded of a folder, or of a single file.

    Raises:
        BadModelFiles: something that belongs to it cannot be read, or is a link to nothing.
        NotFound: a pattern fits no file, or nothing is left to upload.
    """
    if not source.is_dir():
        return Gathered(files=(_local(source.name, source),), skipped=())
    walk = _Walk(source, kind, selection)
    walk.enter("")
    _check_patterns(selection, walk.names)
    files = tuple(_local(name, source / name) for name in sorted(walk.chosen))
    if not files:
        raise NotFound(
            f"Nothing in {printable(str(source), 200)} is left to upload.",
            hint=f"Left out: {_some(walk.skipped)}. Name files with --include.",
        )
    return Gathered(files=files, skipped=tuple(sorted(walk.skipped, key=lambda one: one.name)))


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what tells whether a file has another content than before."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class _Walk:
    """Looks through a folder once."""

    def __init__(self, source: Path, kind: Kind, selection: Selection) -> None:
        self._source = source
        self._kind = kind
        self._selection = selection
        self.names: list[str] = []
        self.chosen: list[str] = []
        self.skipped: list[Skipped] = []

    def enter(self, prefix: str) -> None:
        """Take or leave everything in one folder; `prefix` is its name with a slash, or empty."""
        for entry in self._entries(prefix):
            name = prefix + entry.name
            if len(self.names) > _MOST_FILES:
                raise BadModelFiles(
                    f"{printable(str(self._source), 200)} holds more than {_MOST_FILES} files.",
                    hint="The Hub takes fewer: put them into larger files.",
                )
            if _is_folder(entry):
                self._folder(name, is_link=entry.is_symlink())
            else:
                self.names.append(name)
                self._file(name, entry)

    def _entries(self, prefix: str) -> list[os.DirEntry[str]]:
        folder = self._source / prefix
        try:
            with os.scandir(folder) as found:
                return list(found)
        except OSError as problem:
            raise _unread(folder, problem) from None

    def _folder(self, name: str, *, is_link: bool) -> None:
        reason = reason_to_stay_out(name, self._selection)
        if reason is None and is_link:
            reason = "a link to a folder"
        if reason is None:
            self.enter(f"{name}/")
        else:
            self.skipped.append(Skipped(name=f"{name}/", reason=reason, size=None))

    def _file(self, name: str, entry: os.DirEntry[str]) -> None:
        reason = reason_to_skip(name, self._kind, self._selection)
        if reason is None:
            self.chosen.append(name)
            return
        try:
            size = entry.stat().st_size
        except OSError:
            size = None
        self.skipped.append(Skipped(name=name, reason=reason, size=size))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _local(name: str, path: Path) -> LocalFile:
    """Return a file as it is now.

    Raises:
        BadModelFiles: it is a link to nothing, no regular file, or cannot be looked at.
    """
    try:
        status = path.stat()
    except OSError as problem:
        if path.is_symlink():
            raise BadModelFiles(
                f"{printable(str(path), 200)} is a link to a file that is gone.",
                hint="Repair the link, or leave it out with --exclude.",
            ) from None
        raise _unread(path, problem) from None
    if not stat.S_ISREG(status.st_mode):
        raise BadModelFiles(
            f"{printable(str(path), 200)} is no regular file.", hint="Leave it out with --exclude."
        )
    return LocalFile(name=name, path=path, size=status.st_size, stamp=stamp_of(status))


def _check_patterns(selection: Selection, names: Sequence[str]) -> None:
    if (pattern := unmatched(selection.include, names)) is not None:
        raise NotFound(
            f"No file is called {printable(pattern)!r}.",
            hint="--include names files by their path below the folder: 'checkpoint-100/*'.",
        )


def _unread(path: Path, problem: OSError) -> BadModelFiles:
    return BadModelFiles(
        f"{printable(str(path), 200)} cannot be read: {problem.strerror}.",
        hint="Make it readable for you, or leave it out with --exclude.",
    )


def _some(skipped: Sequence[Skipped]) -> str:
    told = [f"{printable(one.name)} ({one.reason})" for one in skipped[:5]]
    more = f" and {len(skipped) - 5} more" if len(skipped) > 5 else ""
    return (", ".join(told) or "nothing") + more


def changed_files(files: Sequence[LocalFile]) -> Iterator[str]:
    """Yield the names of files that are not what they were when they were gathered."""
    for file in files:
        try:
            if stamp_of(file.path.stat()) != file.stamp:
                yield file.name
        except OSError:
            yield file.name
