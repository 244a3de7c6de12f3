"""The store in which huggingface_hub keeps contents that several repositories share.

    <cache>/blobs/.huggingface-shared-blobs     says that it is one: `1`
    <cache>/blobs/<2 digits>/<hash>             a content
    <cache>/blobs/<2 digits>/<hash>.refs        the links to it, one a line
    <cache>/blobs/<2 digits>/<hash>.lock        held while any of that changes
    <cache>/models--org--name/blobs/<etag>      a link to a content

A content goes when its list of links can be read and none of them is there any more; where that
cannot be told, it stays. Source: huggingface_hub 2.4, `utils/_shared_blobs.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.gc.look import Obstacle, look_at, look_into, target_of
from core.gc.seen import Entry, Form, SharedPayload
from core.registry.files import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from core.gc.look import Ground

_FOLDER = "blobs"
_MARKER = ".huggingface-shared-blobs"
_LAYOUT = b"1\n"
_HASH = re.compile(r"[0-9a-f]{64}")
_REFERENCE = re.compile(r"(?:models|datasets|spaces|kernels)--[^/]+/blobs/[^/]+")
_LONGEST_LIST = 64 * 2**20  # bytes


class SharedStore:
    """The store of one cache."""

    def __init__(self, root: Path) -> None:
        """Name the cache whose store it is; `find_store` has looked that there is one."""
        self._root = root
        self._folder = root / _FOLDER

    def payload_of(self, link: Entry) -> Entry | None:
        """Return the content that a blob which is a link stands for; None: it leads elsewhere."""
        try:
            found = look_at(target_of(link.path))
        except OSError:
            return None
        return found if self._is_payload(found) else None

    def payloads(self) -> list[SharedPayload]:
        """Return every content in the store. What cannot be read is passed over: it stays.

        Raises:
            OSError: the store itself cannot be read.
        """
        found: list[SharedPayload] = []
        for folder in look_into(self._folder):
            if folder.form is not Form.FOLDER or not re.fullmatch("[0-9a-f]{2}", folder.path.name):
                continue
            try:
                inside = look_into(folder.path)
            except OSError:
                continue
            found += [
                SharedPayload(entry=entry, references=self.references(entry.path))
                for entry in inside
                if self._is_payload(entry)
            ]
        return found

    def references(self, payload: Path) -> frozenset[Path] | None:
        """Return the links to a content that are there; None: that cannot be told."""
        try:
            entry = look_at(list_of(payload))
            if entry.form is not Form.FILE:
                return None
            lines = read_bytes(entry.path, limit=_LONGEST_LIST).decode("utf-8").splitlines()
            return frozenset(
                self._root / line
                for line in lines
                if _REFERENCE.fullmatch(line) and self._leads_to(self._root / line, payload)
            )
        except (OSError, UnicodeDecodeError):
            return None

    def _leads_to(self, link: Path, payload: Path) -> bool:
        """Return whether something is a link to a content.

        Raises:
            OSError: that cannot be told.
        """
        try:
            if look_at(link).form is not Form.LINK:
                return False
            return target_of(link) == payload
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _is_payload(self, entry: Entry) -> bool:
        path = entry.path
        return (
            entry.form is Form.FILE
            and bool(_HASH.fullmatch(path.name))
            and path.parent.name == path.name[:2]
            and path.parent.parent == self._folder
        )


def find_store(ground: Ground) -> SharedStore | None:
    """Return the store of a cache; None: it has none."""
    folder = ground.root / _FOLDER
    try:
        ground.check(look_at(folder))
        if look_at(folder / _MARKER).form is not Form.FILE:
            return None
        marked = read_bytes(folder / _MARKER, limit=len(_LAYOUT)) == _LAYOUT
    except (OSError, Obstacle):
        return None
    return SharedStore(ground.root) if marked else None


def list_of(payload: Path) -> Path:
    """Return where the links to a content are listed."""
    return payload.with_name(f"{payload.name}.refs")


def lock_of(payload: Path) -> Path:
    """Return the lock of a content; beside it, `.soft` behind the name is one, too."""
    return payload.with_name(f"{payload.name}.lock")
