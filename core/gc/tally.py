"""How many bytes the items of a plan free. Pure.

A file counts once, with the first item that it belongs to, and only when all its names go: a hard
link from elsewhere keeps it on the disk. A content of the shared store counts when all links go
that its list names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from core.gc.seen import Form

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from core.gc.plan import Item
    from core.gc.seen import Entry, Key, SharedPayload


def counted(items: Sequence[Item], payloads: Sequence[SharedPayload]) -> Iterator[Item]:
    """Yield the items with the bytes that each of them frees.

    Args:
        items: those of a plan, in its order.
        payloads: the contents of the shared store that go with the last link to them.
    """
    names = Counter(entry.key for item in items for entry in _files(item))
    links = {blob.entry.path for item in items for blob in item.blobs if blob.payload}
    shared = {each.entry.key for each in payloads if each.references and each.references <= links}
    taken: set[Key] = set()
    for item in items:
        whole = [entry for entry in _files(item) if names[entry.key] >= entry.names]
        whole += [b.payload for b in item.blobs if b.payload and b.payload.key in shared]
        fresh = {entry.key: entry.size for entry in whole if entry.key not in taken}
        taken |= fresh.keys()
        folders = sum(entry.size for entry in item.entries if entry.form is Form.FOLDER)
        yield replace(item, bytes=sum(fresh.values()) + folders)


def _files(item: Item) -> Iterator[Entry]:
    """Yield the files that an item takes a name from."""
    if item.snapshot:
        yield from (file.entry for file in item.snapshot.files if file.hop is None)
    for entry in (*(blob.entry for blob in item.blobs), *item.entries):
        if entry.form is Form.FILE:
            yield entry
