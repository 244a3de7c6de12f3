"""The files of a vault that are searched, and by what a change to one is noticed."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from core.memory.names import SUFFIX
from core.memory.vault import ARTICLES, LARGEST_PAGE, REFERENCES
from core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Scope = Literal["articles", "reference"]
FOLDERS: dict[Scope, str] = {"articles": ARTICLES, "reference": REFERENCES}
"""Folders of the vault by scope."""

Signature = tuple[int, ...]
"""Time of the last write and of the last change, both in nanoseconds, size, inode."""
_SIGNATURE = attrgetter("st_mtime_ns", "st_ctime_ns", "st_size", "st_ino")
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


def _look_into(folder: Path, prefix: str) -> dict[str, Signature]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return {}
    try:
        found = os.listdir(descriptor)  # noqa: PTH208 - by its descriptor, so that it stays the same
        names = [n for n in found if n.endswith(SUFFIX) and n[0] != "." and _is_text(n)]
        try:  # this loop is most of what a search costs
            stat = os.stat
            return {
                prefix + name: _SIGNATURE(stat(name, dir_fd=descriptor, follow_symlinks=False))
                for name in names
            }
        except FileNotFoundError:  # deleted a moment ago
            return dict(_look_one_by_one(descriptor, names, prefix))
    finally:
        os.close(descriptor)


def _look_one_by_one(
    descriptor: int, names: Iterable[str], prefix: str
) -> Iterator[tuple[str, Signature]]:
    for name in names:
        with suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            yield prefix + name, _SIGNATURE(status)


def _is_text(name: str) -> bool:
    """Return whether a name is UTF-8; other names belong to no page."""
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


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
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)  # Python makes no file of a folder
        return f"{path} is not a regular file."
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > LARGEST_PAGE:
            size, limit = format_bytes(status.st_size), format_bytes(LARGEST_PAGE)
            return f"{path} has {size}; pages of up to {limit} are searched."
        try:
            data = file.read(LARGEST_PAGE)
        except OSError as problem:
            return f"{path} cannot be read: {problem.strerror}."
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    settled = newest + _GRAIN_NS < time.time_ns() and len(data) == status.st_size
    return Content(
        signature=_SIGNATURE(status) if settled else UNSETTLED,
        digest=hashlib.sha256(data).digest(),
        text=data.decode("utf-8", "replace"),
    )
