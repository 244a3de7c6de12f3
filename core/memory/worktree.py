"""What lies on disk in a vault, compared with a commit, without asking git to look at a file.

git would run clean filters and fsmonitor for that. It only lists which files it does not ignore.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.memory.git import Git, TreeEntry

LARGEST_FILE = 64 * 2**20
"""Bytes of a file that goes into git; larger ones stay on disk and are left out, by name."""
_CHUNK = 1 << 20
_LINK = "120000"
_SUBMODULE = "160000"


@dataclass(frozen=True, kw_only=True)
class DirtyFile:
    """A file that differs from the last commit."""

    path: str
    """Relative to the vault."""
    state: Literal["new", "modified", "deleted"]
    """In which way."""


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A file that cannot be recorded."""

    path: str
    """Relative to the vault."""
    reason: str
    """Why, a few words: `larger than 64 MiB`."""


@dataclass(frozen=True, kw_only=True)
class Scan:
    """The vault's files, compared with a commit."""

    dirty: tuple[DirtyFile, ...]
    """What differs, sorted by path."""
    left_out: tuple[LeftOut, ...]
    """What could not be looked at, sorted by path."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """A file as it lies on disk."""

    data: bytes
    """Its bytes; of a symbolic link, where it points."""
    mode: str
    """As `core.memory.git.TreeEntry` has it."""

    @property
    def blob(self) -> str:
        """The hash under which git keeps these bytes."""
        header = b"blob %d\0" % len(self.data)
        return hashlib.sha1(header + self.data, usedforsecurity=False).hexdigest()


class Unreadable(Exception):
    """A file that is there and cannot be recorded; its argument says why."""


def read_content(root: Path, path: str, *, links: dict[str, bool] | None = None) -> Content | None:
    """Return what lies at a path of the vault; None: no file.

    A path through a symbolic link leads out of what git keeps: there is no file then.

    Args:
        root: the vault.
        path: relative to it.
        links: what is known of its folders (see `leads_through_link`).

    Raises:
        Unreadable: it is too large, or may not be read.
    """
    if leads_through_link(root, path, known=links):
        return None
    file = f"{root}/{path}"
    try:
        about = os.lstat(file)
        if stat.S_ISLNK(about.st_mode):
            return Content(data=os.fsencode(os.readlink(file)), mode=_LINK)  # noqa: PTH115
        return _read(file) if stat.S_ISREG(about.st_mode) else None
    except OSError as problem:
        if problem.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
            return None
        raise Unreadable(problem.strerror or "cannot be read") from problem


def _read(file: str) -> Content | None:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as opened:  # noqa: PTH123
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            return None
        parts = [opened.read(min(about.st_size, LARGEST_FILE) + 1)]
        size = len(parts[0])
        while parts[-1] and size <= LARGEST_FILE:  # it may grow meanwhile
            parts.append(opened.read(_CHUNK))
            size += len(parts[-1])
    if size > LARGEST_FILE:
        raise Unreadable(f"larger than {LARGEST_FILE >> 20} MiB")
    return Content(
        data=b"".join(parts), mode="100755" if about.st_mode & stat.S_IXUSR else "100644"
    )


def leads_through_link(root: Path, path: str, *, known: dict[str, bool] | None = None) -> bool:
    """Return whether a folder on the way to a file of the vault is a symbolic link.

    Args:
        root: the vault.
        path: relative to it.
        known: answers for folders, which are looked up and added.
    """
    folder = path.rpartition("/")[0]
    if not folder:
        return False
    known = {} if known is None else known
    if folder not in known:
        is_link = os.path.islink(f"{root}/{folder}")  # noqa: PTH114
        known[folder] = is_link or leads_through_link(root, folder, known=known)
    return known[folder]


def scan(git: Git, files: Mapping[str, TreeEntry], *, absent: frozenset[str] = frozenset()) -> Scan:
    """Compare the vault's files with those of a commit.

    A file counts as changed by its bytes, or by becoming a link; permissions do not count.

    Args:
        git: the repository.
        files: the commit's files (`Git.tree`).
        absent: files that are not on disk on purpose (a sparse checkout).
    """
    dirty: list[DirtyFile] = []
    left_out: list[LeftOut] = []
    links: dict[str, bool] = {}
    for path in sorted({*files, *_listed(git)}):
        entry = files.get(path)
        if path in absent or (entry and entry.mode == _SUBMODULE):
            continue
        try:
            state = _state(entry, read_content(git.root, path, links=links))
        except Unreadable as problem:
            left_out.append(LeftOut(path=path, reason=str(problem)))
            continue
        if state is not None:
            dirty.append(DirtyFile(path=path, state=state))
    return Scan(dirty=tuple(dirty), left_out=tuple(left_out))


def _state(
    entry: TreeEntry | None, content: Content | None
) -> Literal["new", "modified", "deleted"] | None:
    if content is None:
        return "deleted" if entry else None
    if entry is None:
        return "new"
    is_same = entry.blob == content.blob and (entry.mode == _LINK) == (content.mode == _LINK)
    return None if is_same else "modified"


def _listed(git: Git) -> tuple[str, ...]:
    """Return all files on disk that git does not ignore; repositories within are left alone."""
    exclude = git.folder / "info" / "exclude"
    also = [f"--exclude-from={exclude}"] if exclude.is_file() else []
    nothing = git.folder / "mlxbun" / "no-index"  # so that every file counts as untracked
    printed = git.run("ls-files", "-z", "--others", "--exclude-standard", *also, index=nothing)
    paths = (os.fsdecode(path) for path in printed.split(b"\0") if path)
    return tuple(path for path in paths if not path.endswith("/"))


def checked_path(path: str) -> str:
    """Return a path within the vault as it was given.

    Raises:
        BadRequest: it leads out of the vault, or into git's own files.
    """
    parts = path.split("/")
    if any(part in ("", ".", "..") or _is_gits(part) for part in parts) or "\0" in path:
        raise BadRequest(f"{path!r} is not a path of a file in the vault.", field="path")
    return path


def _is_gits(part: str) -> bool:
    """Return whether a file system may take a name for `.git`, or git reads settings there."""
    # Letters that HFS+ ignores are of the category Cf; NTFS ignores trailing dots and spaces.
    plain = "".join(each for each in part if unicodedata.category(each) != "Cf").casefold()
    plain = plain.rstrip(". ")
    return plain in (".git", "git~1", ".gitattributes", ".gitmodules")
