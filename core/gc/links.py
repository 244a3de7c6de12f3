"""Which contents the snapshots of a cache lead to: those that go, and those that stay. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from core.gc.seen import Blob, Cache, Key, Repository, Snapshot


class Links:
    """The links of all snapshots in a cache."""

    def __init__(self, cache: Cache, going: Collection[Path]) -> None:
        """Follow them.

        Args:
            cache: what was seen.
            going: the snapshots that go, by their folders.
        """
        self._used = cache.uses.contents
        # By what they lead to, the repositories that have one.
        self._staying: dict[Path | Key, set[Path]] = defaultdict(set)
        self._going: dict[Path | Key, set[Path]] = defaultdict(set)
        for repository in cache.repositories:
            for snapshot in repository.snapshots:
                found = self._going if snapshot.path in going else self._staying
                for mark in _marks(snapshot):
                    found[mark].add(repository.path)

    def need(self, blob: Blob, repository: Repository) -> bool:
        """Return whether a blob has to stay although all that goes in its repository is gone.

        What goes in another repository is still there then. A content in the shared store has a
        link for each repository: here it counts only who needs this one.
        """
        elsewhere = self._elsewhere(blob.entry.path, repository)
        if blob.payload is None:
            content = blob.entry.key
            return elsewhere or content in self._used or self._elsewhere(content, repository)
        content = blob.payload.key
        return (
            elsewhere or content in self._used or repository.path in self._staying.get(content, ())
        )

    def need_content(self, key: Key) -> bool:
        """Return whether something that stays leads to a file."""
        return key in self._used or key in self._staying

    def lead_to(self, key: Key) -> bool:
        """Return whether anything leads to a file."""
        return self.need_content(key) or key in self._going

    def _elsewhere(self, mark: Path | Key, repository: Repository) -> bool:
        return mark in self._staying or bool(self._going.get(mark, set()) - {repository.path})


def blobs_of(snapshot: Snapshot, blobs: Iterable[Blob]) -> list[Blob]:
    """Return those blobs to which a snapshot has a link."""
    marks = _marks(snapshot)
    return [blob for blob in blobs if not marks.isdisjoint((blob.entry.path, *blob.contents))]


def _marks(snapshot: Snapshot) -> set[Path | Key]:
    """Return what its links lead to: by its name, and by what is found there."""
    found: set[Path | Key] = {path for file in snapshot.files for path in file.leads_to}
    return found | {file.content for file in snapshot.files if file.content is not None}
