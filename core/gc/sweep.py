"""Deleting in one repository of the cache: snapshots first, then what only they had."""

from __future__ import annotations

import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.download.layout import PARTIAL_SUFFIX
from core.gc.locks import holding
from core.gc.look import Obstacle, Ways, look_at, look_into
from core.gc.remove import CHANGED, check_writable, move_folder, remove_file, remove_tree
from core.gc.repository import (
    INCOMPLETE,
    LOCKS,
    TRASH,
    read_refs,
    read_snapshot,
    read_snapshots,
)
from core.gc.seen import Form
from core.gc.shared import find_store, list_of, lock_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.gc.look import Ground
    from core.gc.seen import Blob, Entry, Key, Repository, Snapshot
    from core.gc.watch import Watch

_UNIQUE_DIGITS = 8  # that huggingface_hub puts between an etag and `.incomplete`


@dataclass
class RepositorySweep:
    """Deletes in one repository. Every method returns the bytes that the disk gets back.

    All of them raise `Obstacle` where a thing has changed or is in use, and OSError where it cannot
    be deleted; what is one thing to a reader of the cache is then still there.
    """

    repository: Repository
    ground: Ground
    watch: Watch
    free: frozenset[Key]
    """Contents of the shared store that go with the last link to them."""
    _gone: set[Path] = field(default_factory=set, init=False)
    _links: _Links | None = field(default=None, init=False)

    def remove_snapshot(self, snapshot: Snapshot) -> int:
        """Delete a snapshot; its contents stay."""
        self.watch.check_idle(self.repository)
        self.watch.check_unused(self.repository, snapshot)
        self._check_superseded(snapshot)
        if read_snapshot(look_at(snapshot.path), self.ground, Ways()) != snapshot:
            raise Obstacle(CHANGED)
        check_writable(snapshot.path, *(folder.path for folder in snapshot.folders))
        trash = self.repository.path / f"{TRASH}{secrets.token_hex(8)}"
        move_folder(self.ground, snapshot.path, trash)
        if snapshot.commit in self._refs():  # a moment ago
            move_folder(self.ground, trash, snapshot.path)
            raise Obstacle("a branch or a tag stands for it now")
        self._gone.add(snapshot.path)
        return remove_tree(self.ground, trash)

    def remove_blob(self, blob: Blob) -> int:
        """Delete a content, or a link into the shared store and what it leads to."""
        self.watch.check_unlisted(self.repository)
        with self._locked(blob.entry.path.name):
            self._check_unlinked(blob)
            freed = remove_file(self.ground, blob.entry)
        if blob.payload is None or blob.payload.key not in self.free:
            return freed
        with suppress(Obstacle):  # another repository has it, too
            freed += remove_payload(self.ground, blob.payload)
        return freed

    def remove_partial(self, partial: Entry) -> int:
        """Delete the beginning of a content."""
        self.watch.check_idle(self.repository)
        with self._locked(_etag_of(partial.path.name)):
            return remove_file(self.ground, partial)

    def _check_superseded(self, snapshot: Snapshot) -> None:
        """Check that the repository's name does not stand for a snapshot.

        Raises:
            Obstacle: it does, by a ref or because nothing else is there.
        """
        found = look_into(self.repository.path / "snapshots")
        here = {e.path.name: e.modified_ns for e in found if e.form is Form.FOLDER}
        standing = self._refs() & here.keys()
        newest = max(here, key=lambda name: (here[name], name), default=None)
        if snapshot.commit in (standing or {newest}):
            raise Obstacle("its repository's name stands for it now")

    def _refs(self) -> frozenset[str]:
        return read_refs(self.repository.path, self.ground)[0]

    @contextmanager
    def _locked(self, etag: str) -> Iterator[None]:
        """Keep others from fetching a content while the block runs."""
        folder = self.ground.root / LOCKS
        for path in (folder, folder / self.repository.path.name):
            with suppress(FileNotFoundError):
                self.ground.check(look_at(path))
        with holding(folder / self.repository.path.name / f"{etag}.lock") as held:
            if not held:
                raise Obstacle("it is being downloaded")
            yield

    def _check_unlinked(self, blob: Blob) -> None:
        """Check that no snapshot has a link to a blob, nor is about to get one.

        huggingface_hub looks whether a content is there before it waits for the lock, and links to
        it after that without a second look. But it makes the folder of a new revision before: in a
        repository where anything is new, no content goes.

        Raises:
            Obstacle: one has a link, or somebody is at work.
        """
        if self._links is None:
            self._links = _Links(self.repository, self.ground, but_for=self._gone)
        if self._links.are_others():
            raise Obstacle("something has changed in its repository since")
        linked = self._links.lead_to(blob) or not self.watch.contents.isdisjoint(blob.contents)
        if linked:
            raise Obstacle("a snapshot links to it")


class _Links:
    """The links of the snapshots that a repository has, and whether they are those of the plan."""

    def __init__(self, planned: Repository, ground: Ground, *, but_for: set[Path]) -> None:
        """Follow them.

        Args:
            planned: the repository as it was seen.
            ground: the cache.
            but_for: snapshots that we have deleted since.
        """
        top = look_at(planned.path / "snapshots")  # before what is in it, to notice changes
        refs, _ = read_refs(planned.path, ground)
        snapshots = {each.path: each for each in read_snapshots(planned.path, ground, Ways())}
        expected = {each.path: each for each in planned.snapshots if each.path not in but_for}
        self._as_planned = (refs, snapshots) == (planned.refs, expected)
        inside = [entry for each in snapshots.values() for entry in (each.entry, *each.folders)]
        self._stamps = {entry.path: (entry.key, entry.modified_ns) for entry in (top, *inside)}
        files = [file for each in snapshots.values() for file in each.files]
        self._hops = {path for file in files for path in file.leads_to}
        self._contents: set[Key | None] = {file.content for file in files}

    def are_others(self) -> bool:
        """Return whether something has been added or removed anywhere since it was planned."""
        changed = (path for path, stamp in self._stamps.items() if _stamp(path) != stamp)
        return not self._as_planned or next(changed, None) is not None

    def lead_to(self, blob: Blob) -> bool:
        """Return whether one of them leads to a blob."""
        return blob.entry.path in self._hops or not self._contents.isdisjoint(blob.contents)


def remove_payload(ground: Ground, payload: Entry) -> int:
    """Delete a content of the shared store, unless a repository has a link to it.

    Returns:
        The bytes that the disk gets back.

    Raises:
        Obstacle: it is needed, or somebody is changing something about it.
        OSError: it is gone, or cannot be deleted.
    """
    store = find_store(ground)
    lock = lock_of(payload.path)
    if store is None or lock.with_name(f"{lock.name}.soft").exists():
        raise Obstacle("it is in use")
    with holding(lock) as held:
        references = store.references(payload.path) if held else None
        if references is None or references:
            raise Obstacle("it is in use")
        freed = remove_file(ground, payload)
        with suppress(OSError):
            list_of(payload.path).unlink()
    return freed


def _etag_of(partial: str) -> str:
    """Return the etag whose lock stands for a partial file: ours, or one of huggingface_hub.

    Theirs have random digits in their names, or, of versions before 2, none.
    """
    if partial.endswith(PARTIAL_SUFFIX):
        return partial.removesuffix(PARTIAL_SUFFIX)
    stem, dot, digits = partial.removesuffix(INCOMPLETE).rpartition(".")
    return stem if dot and len(digits) == _UNIQUE_DIGITS else partial.removesuffix(INCOMPLETE)


def _stamp(path: Path) -> tuple[Key, int] | None:
    try:
        entry = look_at(path)
    except OSError:
        return None
    return entry.key, entry.modified_ns
