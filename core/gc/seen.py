"""What lies on the disk, as it was seen at one moment. Values only; nothing in here looks itself.

Two of these are equal when the same thing was seen twice: what a look itself changes, the time of
the last use, and what makes no difference to a deletion are left out of the comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Key = tuple[int, int]
"""Device and inode: what a file is, whatever it is called."""

_LABELS = {"model": "", "dataset": "datasets/", "space": "spaces/", "kernel": "kernels/"}


class Form(StrEnum):
    """What something in a folder is. Links are never looked through."""

    FILE = "file"
    LINK = "link"
    FOLDER = "folder"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Something in a folder; or a folder with all that is in it, seen as one thing."""

    path: Path
    """Where it lies."""
    form: Form
    """What it is."""
    key: Key
    """Which it is."""
    size: int
    """Bytes; of a folder that is seen as one thing: of all files in it."""
    modified_ns: int
    """When it was last written to, in nanoseconds since 1970."""
    names: int = field(default=1, compare=False)
    """Hard links that a file has; deleting one of several frees nothing."""
    last_used: float = field(compare=False)
    """When it was last read or written, in seconds since 1970, as far as the disk tells."""


@dataclass(frozen=True, kw_only=True)
class SnapshotFile:
    """A file of a snapshot: a link to a content, or the content itself."""

    name: str
    """Its path in the snapshot."""
    entry: Entry
    """The link, or the file."""
    hop: Path | None
    """Where the link leads, one step of it; None: it is no link."""
    said: Path | None
    """Where it leads as text, which huggingface_hub goes by; None: it is no link."""
    content: Key | None
    """What is found through all links; None: nothing."""

    @property
    def leads_to(self) -> set[Path]:
        """Both."""
        return {path for path in (self.hop, self.said) if path is not None}


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The files of one commit."""

    commit: str
    """Its name."""
    entry: Entry
    """Its folder."""
    files: tuple[SnapshotFile, ...]
    """By name."""
    folders: tuple[Entry, ...] = ()
    """The folders in it."""
    obstacle: str | None = None
    """Why it is not deleted, as a clause; None: it can be."""

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.entry.path

    @property
    def modified(self) -> float:
        """When a file was last added to its top folder, in seconds since 1970."""
        return self.entry.modified_ns / 1e9


@dataclass(frozen=True, kw_only=True)
class Blob:
    """Something in `blobs/`: a content, or a link into the store that repositories share."""

    entry: Entry
    """The file or the link."""
    payload: Entry | None = None
    """The content in the shared store; None: it is no link there."""

    @property
    def contents(self) -> set[Key]:
        """The files that it stands for."""
        return {self.entry.key, self.payload.key} if self.payload else {self.entry.key}

    @property
    def last_used(self) -> float:
        """When its content was last read or written, in seconds since 1970."""
        return (self.payload or self.entry).last_used


@dataclass(frozen=True, kw_only=True)
class Repository:
    """One repository's folder in the cache."""

    path: Path
    """Where it lies."""
    kind: str
    """`model`, `dataset`, `space` or `kernel`."""
    repo_id: str
    """`org/name`, or a bare `name`."""
    problem: str | None = None
    """Why nothing in it may be deleted, as a clause; None: something may."""
    refs: frozenset[str] = frozenset()
    """The commits that branches and tags stand for."""
    snapshots: tuple[Snapshot, ...] = ()
    """The newest first."""
    blobs: tuple[Blob, ...] = ()
    """What lies in `blobs/` whole, by name."""
    partials: tuple[Entry, ...] = ()
    """What downloads have begun there and not ended."""
    leftovers: tuple[Entry, ...] = ()
    """Files that a crash of mlxbun has left in `refs/`, and snapshots that it was deleting."""
    locks: tuple[Entry, ...] = ()
    """Lock files that nobody holds."""
    busy: bool = False
    """Whether somebody holds one of its locks: it is being downloaded."""

    @property
    def label(self) -> str:
        """What people call it: `org/name`, `datasets/org/name`."""
        return _LABELS.get(self.kind, f"{self.kind}s/") + self.repo_id


@dataclass(frozen=True, kw_only=True)
class SharedPayload:
    """A content in the store that repositories share."""

    entry: Entry
    """The file."""
    references: frozenset[Path] | None
    """The links to it in repositories; None: that cannot be told."""


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """Things of one sort that mlxbun itself has left somewhere."""

    one: str
    """What each is: `tokenizer card`."""
    many: str
    """What several are: `tokenizer cards`."""
    base: Path
    """The folder of ours that they lie in."""
    entries: tuple[Entry, ...]
    """The things; a folder is seen as one."""
    least_age: float
    """Seconds without use, from which one of them is of no use any more."""


@dataclass(frozen=True, kw_only=True)
class Uses:
    """What others rely on, each with a clause that says who."""

    snapshots: Mapping[Path, str] = field(default_factory=dict)
    """Snapshot folders."""
    contents: frozenset[Key] = frozenset()
    """Files."""
    repositories: Mapping[Path, str] = field(default_factory=dict)
    """Repositories of which some snapshot is in use, it is not known which."""


@dataclass(frozen=True, kw_only=True)
class Cache:
    """All that a plan is made from."""

    root: Path
    """The Hugging Face cache, links in its own path followed."""
    exists: bool = True
    """Whether there is such a folder."""
    by_access: bool = True
    """Whether its disk keeps the times of reading."""
    repositories: tuple[Repository, ...] = ()
    """By path."""
    stray_locks: tuple[Entry, ...] = ()
    """Lock files that nobody holds, of repositories that are not there."""
    payloads: tuple[SharedPayload, ...] = ()
    """The shared store."""
    leftovers: tuple[Leftover, ...] = ()
    """What mlxbun has left, here and in its own folders."""
    uses: Uses = field(default_factory=Uses)
    """What others rely on."""
    downloading: frozenset[str] = frozenset()
    """Models that some mlxbun downloads now, by repo id."""
    interrupted: Mapping[str, float] = field(default_factory=dict)
    """Models whose download has not come to its end: when it stopped, in seconds since 1970."""


def snapshot_of(path: Path, root: Path) -> Path | None:
    """Return the snapshot that a path in the cache `root` belongs to; None: to none."""
    try:
        parts = path.relative_to(root).parts
    except ValueError:
        return None
    inside = len(parts) >= 3 and parts[1] == "snapshots"
    return root.joinpath(*parts[:3]) if inside else None
