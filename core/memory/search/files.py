"""The files of a vault that are searched, and by what a change to one is noticed."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Scope = Literal["articles", "reference"]
FOLDERS: dict[Scope, str] = {"articles": "articles", "reference": "Reference"}
"""Folders of the vault by scope."""
LIMIT = 2 * 2**20
"""Bytes of a file that is searched; larger ones are left out by name."""
MOST_FILES = 100_000
"""Files that are looked at."""

Signature = tuple[int, ...]
"""Time of the last write and of the last change, both in nanoseconds, size, inode, type."""
_SIGNATURE = attrgetter("st_mtime_ns", "st_ctime_ns", "st_size", "st_ino", "st_mode")
# A file that was written so shortly before it was read may change again without a new time.
_GRAIN_NS = 2 * 10**9
UNSETTLED: Signature = ()
"""Signature of a file that is looked at again next time."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """What stood in a file at one moment."""

    signature: Signature
    """By which a later change is noticed; `UNSETTLED` if it might not be."""
    digest: bytes
    """SHA-256 of its bytes."""
    text: str
    """Its text; bytes that are not UTF-8 are replaced."""


def look(root: Path) -> dict[str, Signature]:
    """Return the searched files, by path relative to the vault, with their signatures.

    Only what lies directly in a folder, ends in `.md` and does not begin with a dot.
    """
    found: dict[str, Signature] = {}
    for folder in FOLDERS.values():
        found.update(_look_into(root / folder, f"{folder}/"))
    return found


def _look_into(folder: Path, prefix: str) -> Iterator[tuple[str, Signature]]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        names = [n for n in os.listdir(descriptor) if n.endswith(".md") and n[0] != "."]
        names = sorted(names)[:MOST_FILES] if len(names) > MOST_FILES else names
        for name in names:
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:  # deleted a moment ago
                continue
            yield prefix + name, _SIGNATURE(status)
    finally:
        os.close(descriptor)


def read(root: Path, path: str) -> Content | str:
    """Return what stands in a file, or in one sentence why it is not searched.

    Args:
        root: the vault.
        path: relative to it.
    """
    try:
        descriptor = os.open(root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as problem:
        return f"{path} cannot be read: {problem.strerror}."
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return f"{path} is not a regular file."
        if status.st_size > LIMIT:
            return f"{path} has {status.st_size} bytes; files over {LIMIT} bytes are not searched."
        try:
            data = file.read(LIMIT + 1)
        except OSError as problem:
            return f"{path} cannot be read: {problem.strerror}."
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    settled = newest + _GRAIN_NS < time.time_ns() and len(data) == status.st_size
    return Content(
        signature=_SIGNATURE(status) if settled else UNSETTLED,
        digest=hashlib.sha256(data).digest(),
        text=data[:LIMIT].decode("utf-8", "replace"),
    )
