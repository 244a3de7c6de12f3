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


@dataclass(frozen=True, kw_only=True)
class _Listing:
    """The names in a folder."""

    signature: Signature
    """Of the folder; `UNSETTLED` if a name might come without a change of it."""
    names: list[str]
    """Those of pages."""
    paths: list[str]
    """The same, relative to the vault."""


class Looker:
    """Looks at the files of a vault, again and again. One thread at a time."""

    def __init__(self) -> None:
        self._listings: dict[Path, _Listing] = {}

    def look(self, root: Path) -> dict[str, Signature]:
        """Return the searched files, by path relative to the vault, with their signatures.

        Only what lies directly in a folder, ends in `.md` and does not begin with a dot. This is
        most of what a search costs, so a folder is listed again only if it has changed.
        """
        found: dict[str, Signature] = {}
        for folder in FOLDERS.values():
            found.update(self._look_into(root / folder, f"{folder}/"))
        return found

    def _look_into(self, folder: Path, prefix: str) -> dict[str, Signature]:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return {}
        try:
            listing = self._listing(folder, descriptor, prefix)
            stat = os.stat
            try:
                signatures = [
                    _SIGNATURE(stat(name, dir_fd=descriptor, follow_symlinks=False))
                    for name in listing.names
                ]
                return dict(zip(listing.paths, signatures, strict=True))
            except FileNotFoundError:  # deleted a moment ago
                return dict(_look_one_by_one(descriptor, listing.names, prefix))
        finally:
            os.close(descriptor)

    def _listing(self, folder: Path, descriptor: int, prefix: str) -> _Listing:
        status = os.fstat(descriptor)
        known = self._listings.get(folder)
        if known and known.signature == _SIGNATURE(status):
            return known
        found = os.listdir(descriptor)
        names = [n for n in found if n.endswith(SUFFIX) and n[0] != "." and _is_text(n)]
        listing = _Listing(
            signature=_SIGNATURE(status) if _is_settled(status) else UNSETTLED,
            names=names,
            paths=[prefix + name for name in names],
        )
        self._listings[folder] = listing
        return listing


def _is_settled(status: os.stat_result) -> bool:
    """Return whether a later change of what was just looked at has another time."""
    return max(status.st_mtime_ns, status.st_ctime_ns) + _GRAIN_NS < time.time_ns()


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
    settled = _is_settled(status) and len(data) == status.st_size
    return Content(
        signature=_SIGNATURE(status) if settled else UNSETTLED,
        digest=hashlib.sha256(data).digest(),
        text=data.decode("utf-8", "replace"),
    )
