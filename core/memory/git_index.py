"""The user's git index: what is staged, and how it follows a commit that git did not make."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.memory.git import TreeEntry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from core.memory.git import Git

_FAILED = (0, 128, 1)


@dataclass(frozen=True, kw_only=True)
class Index:
    """What an index says."""

    files: Mapping[str, TreeEntry]
    """The files as they are staged, by path."""
    absent: frozenset[str]
    """Files that are not on disk on purpose (a sparse checkout)."""
    unmerged: bool
    """Whether there are conflicts to resolve."""


def read_index(git: Git) -> Index:
    """Read the index of a repository; one that is missing or damaged is empty.

    Raises:
        StoreCorrupt: a path leads out of the vault, or into git's own files.
    """
    files: dict[str, TreeEntry] = {}
    absent = set()
    unmerged = False
    index = git.folder / "index"
    if not index.is_file():  # git would wait for a pipe
        return Index(files={}, absent=frozenset(), unmerged=False)
    listed = git.call("ls-files", "--stage", "-v", "-z", index=index, accept=_FAILED)
    for line in listed.out.split(b"\0") if listed.code == 0 else ():
        about, _, name = line.partition(b"\t")
        if not name:
            continue
        tag, mode, blob, stage = about.decode("ascii").split(" ")
        path = os.fsdecode(name)
        unmerged = unmerged or stage != "0"
        files[path] = TreeEntry(mode=mode, blob=blob)
        if tag in "Ss":
            absent.add(path)
    git.refuse_outside(files)
    return Index(files=files, absent=frozenset(absent), unmerged=unmerged)


def write_index(git: Git, commit: str, target: Path) -> None:
    """Write an index that agrees with a commit and keeps what the old one knows of files."""
    old = git.folder / "index"
    if old.is_file():
        shutil.copyfile(old, target)
        # -i: files on disk are not looked at, so that no filter can run.
        done = git.call("read-tree", "-m", "-i", commit, index=target, accept=_FAILED)
        if done.code == 0:
            return
        target.unlink(missing_ok=True)
    git.run("read-tree", commit, index=target)
