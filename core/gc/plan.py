"""What would be deleted, with the bytes that this frees. Pure: a look in, a plan out."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from core.download.layout import PARTIAL_SUFFIX
from core.gc.choose import Choice, Kept, age_of, choose, closed, short, wished
from core.gc.own import DAY
from core.gc.seen import Form

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from core.gc.seen import Blob, Cache, Entry, Key, Repository, Snapshot
    from core.gc.wishes import Wishes

_Thing = TypeVar("_Thing", "Entry", "Blob")

_INCOMPLETE = ("incomplete download", "incomplete downloads")
_WAITING = ("file of a stopped download", "files of a stopped download")
_GOES_ON = ", and `mlxbun download` goes on with it"
_MOMENT = 60.0  # seconds; what was written to within it may be written to now


class Kind(StrEnum):
    """What an item of a plan is."""

    SNAPSHOT = "snapshot"
    BLOBS = "orphaned_blobs"
    INCOMPLETE = "incomplete_downloads"
    SHARED = "shared_blobs"
    LOCKS = "locks"
    LEFTOVERS = "leftovers"


@dataclass(frozen=True, kw_only=True)
class Item:
    """Something to be deleted."""

    kind: Kind
    """What it is."""
    what: str
    """The same for people: `snapshot 0123abcd`, `2 orphaned blobs`."""
    base: Path
    """The folder that it must not lead out of."""
    repository: Repository | None = None
    """Where it lies; None: in no repository."""
    snapshot: Snapshot | None = None
    """The snapshot."""
    blobs: tuple[Blob, ...] = ()
    """Contents that nothing links to any more; with a snapshot: once it is gone."""
    entries: tuple[Entry, ...] = ()
    """Files, links and whole folders, of other kinds."""
    bytes: int = 0
    """Bytes that the disk gets back. What counts with an item before it does not count again."""
    last_used: float | None = None
    """When the last of it was last used, in seconds since 1970."""

    @property
    def paths(self) -> list[Path]:
        """The folder or the files."""
        own = [self.snapshot.path] if self.snapshot else []
        return [*own, *(blob.entry.path for blob in self.blobs), *(e.path for e in self.entries)]


@dataclass(frozen=True, kw_only=True)
class RepositoryShare:
    """What of one repository is superseded: snapshots and contents."""

    repository: Repository
    """The repository."""
    snapshots: tuple[Item, ...]
    """Its snapshots that go."""
    unique: tuple[Kept, ...]
    """Its superseded snapshots that stay, because no other one has some of their files."""
    blobs: tuple[Blob, ...]
    """Contents that go, with those snapshots or as orphans."""
    bytes: int
    """Bytes that this frees."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What would be deleted."""

    cache: Cache
    """What it was made from."""
    wishes: Wishes
    """What was asked for."""
    items: tuple[Item, ...]
    """What goes, in the order of deletion."""
    kept: tuple[Kept, ...]
    """What stays and could be thought to go."""

    @property
    def bytes(self) -> int:
        """Bytes that the disk gets back."""
        return sum(item.bytes for item in self.items)

    def shares(self) -> list[RepositoryShare]:
        """Return what is superseded, by repository; one without anything is left out."""
        shares = [self._share(repository) for repository in self.cache.repositories]
        return [share for share in shares if share.snapshots or share.unique or share.blobs]

    def _share(self, repository: Repository) -> RepositoryShare:
        kinds = (Kind.SNAPSHOT, Kind.BLOBS)
        items = [i for i in self.items if i.repository is repository and i.kind in kinds]
        return RepositoryShare(
            repository=repository,
            snapshots=tuple(item for item in items if item.snapshot),
            unique=tuple(k for k in self.kept if k.repository is repository and k.unique),
            blobs=tuple(blob for item in items for blob in item.blobs),
            bytes=sum(item.bytes for item in items),
        )


def make_plan(cache: Cache, wishes: Wishes, *, now: float) -> Plan:
    """Return what of a cache nobody needs.

    Args:
        cache: all that was seen.
        wishes: what is asked for.
        now: Unix seconds.

    Raises:
        NotFound: no repository has the name that is wished.
    """
    choice = choose(cache, wishes, now=now)
    planner = _Planner(cache, wishes, choice, now)
    items: list[Item] = []
    for repository in wished(cache, wishes):
        if closed(repository, cache) is None:
            items += planner.of_repository(repository)
    if wishes.repository is None:
        items += planner.of_store()
    items += planner.of_locks()
    if wishes.repository is None:
        items += planner.of_ours()
    return Plan(
        cache=cache,
        wishes=wishes,
        items=tuple(_counted(items, cache)),
        kept=(*choice.kept, *planner.kept),
    )


class _Planner:
    def __init__(self, cache: Cache, wishes: Wishes, choice: Choice, now: float) -> None:
        self._cache = cache
        self._wishes = wishes
        self._now = now
        self._going = choice.going
        self._links = _Links(cache, choice.going)
        self.kept: list[Kept] = []

    def of_repository(self, repository: Repository) -> Iterator[Item]:
        """Yield what goes of one repository: snapshots, contents, beginnings, remains."""
        free = [blob for blob in repository.blobs if not self._links.need(blob, repository)]
        left = {blob.entry.path: blob for blob in free if not _leads_out(blob)}
        for snapshot in repository.snapshots:
            if snapshot.path in self._going:
                dead = [blob for blob in left.values() if self._links.has(snapshot, blob)]
                for blob in dead:
                    del left[blob.entry.path]
                yield _snapshot_item(snapshot, dead, repository, self._cache.root)
        yield from self._contents(repository, list(left.values()))
        # A snapshot that was being deleted is of no use from the start.
        ages = {Form.FOLDER: 0.0}
        old = [e for e in repository.leftovers if self._is_old(e, ages.get(e.form, DAY))]
        yield from self._entries(
            Kind.LEFTOVERS, old, ("remnant", "remnants"), repository=repository
        )

    def _contents(self, repository: Repository, orphans: Sequence[Blob]) -> Iterator[Item]:
        """Yield orphaned contents and beginnings, but for those of a download to go on with."""
        limit = self._resumable_for
        young, partials = self._parted(repository.partials, limit)
        ours = [each for each in young if each.path.name.endswith(PARTIAL_SUFFIX)]
        theirs = [each for each in young if each not in ours]
        stopped = self._cache.interrupted.get(repository.repo_id, 0.0)
        listed = repository.kind == "model" and self._now - stopped < limit
        # Only ours fetch everything before they link anything.
        waiting, old = self._parted(orphans, limit if ours or listed else 0.0)
        self._note(repository, theirs, _INCOMPLETE, "")
        self._note(repository, ours, _INCOMPLETE, _GOES_ON)
        if ours or listed:
            self._note(
                repository,
                waiting,
                _WAITING,
                _GOES_ON,
            )
        if old:
            yield Item(
                kind=Kind.BLOBS,
                what=_count(old, "orphaned blob", "orphaned blobs"),
                base=self._cache.root,
                repository=repository,
                blobs=tuple(old),
                last_used=max(blob.last_used for blob in old),
            )
        yield from self._entries(Kind.INCOMPLETE, partials, _INCOMPLETE, repository=repository)

    def of_store(self) -> Iterator[Item]:
        """Yield contents of the shared store that no repository has a link to."""
        free = [
            payload.entry
            for payload in self._cache.payloads
            if payload.references is not None
            and not payload.references
            and not self._links.need_content(payload.entry.key)
            and self._is_old(payload.entry, 0.0)
        ]
        yield from self._entries(Kind.SHARED, free, ("shared blob", "shared blobs"))

    def of_locks(self) -> Iterator[Item]:
        """Yield lock files that nobody holds."""
        found = [
            lock
            for repository in wished(self._cache, self._wishes)
            if closed(repository, self._cache) is None
            for lock in repository.locks
        ]
        if self._wishes.repository is None:
            found += self._cache.stray_locks
        old = [lock for lock in found if self._is_old(lock, DAY)]
        yield from self._entries(Kind.LOCKS, old, ("unused lock file", "unused lock files"))

    def of_ours(self) -> Iterator[Item]:
        """Yield what mlxbun has left."""
        for each in self._cache.leftovers:
            old = [entry for entry in each.entries if self._is_old(entry, each.least_age)]
            yield from self._entries(Kind.LEFTOVERS, old, (each.one, each.many), base=each.base)

    @property
    def _resumable_for(self) -> float:
        """Seconds for which a download that has stopped may be gone on with."""
        asked = self._wishes.older_than
        return max(DAY if asked is None else asked, _MOMENT)

    def _parted(self, things: Iterable[_Thing], least: float) -> tuple[list[_Thing], list[_Thing]]:
        """Return those that are too young, and the others."""
        parts: tuple[list[_Thing], list[_Thing]] = ([], [])
        for thing in things:
            parts[self._is_old(thing, least)].append(thing)
        return parts

    def _is_old(self, thing: Entry | Blob, least: float) -> bool:
        return self._now - thing.last_used >= max(least, self._wishes.older_than or 0.0)

    def _entries(
        self,
        kind: Kind,
        entries: Sequence[Entry],
        names: tuple[str, str],
        *,
        repository: Repository | None = None,
        base: Path | None = None,
    ) -> Iterator[Item]:
        if entries:
            yield Item(
                kind=kind,
                what=_count(entries, *names),
                base=base or self._cache.root,
                repository=repository,
                entries=tuple(entries),
                last_used=max(entry.last_used for entry in entries),
            )

    def _note(
        self,
        repository: Repository,
        young: Sequence[object],
        names: tuple[str, str],
        remark: str,
    ) -> None:
        if young:
            kept = Kept(
                repository=repository,
                what=_count(young, *names),
                path=repository.path,
                reason=f"younger than {age_of(self._resumable_for)}{remark}",
            )
            self.kept.append(kept)


class _Links:
    """Which contents snapshots stand for."""

    def __init__(self, cache: Cache, going: Iterable[Path]) -> None:
        self._hops: set[Path] = set()
        self._contents: set[Key] = set(cache.uses.contents)
        # What goes in one repository is still there when another one is tidied up.
        self._going: dict[Path | Key, set[Path]] = defaultdict(set)
        self._of: dict[Path, set[Path | Key]] = {}
        leaving = set(going)
        for repository in cache.repositories:
            for snapshot in repository.snapshots:
                self._add(snapshot, repository, is_going=snapshot.path in leaving)

    def need(self, blob: Blob, repository: Repository) -> bool:
        """Return whether a snapshot that stays, or one of another repository, links to a blob."""
        if blob.entry.path in self._hops or not self._contents.isdisjoint(blob.contents):
            return True
        marks: list[Path | Key] = [blob.entry.path, *blob.contents]
        return any(self._going[mark] - {repository.path} for mark in marks if mark in self._going)

    def need_content(self, key: Key) -> bool:
        """Return whether any snapshot stands for a file."""
        return key in self._contents or key in self._going

    def has(self, snapshot: Snapshot, blob: Blob) -> bool:
        """Return whether a snapshot that goes links to a blob."""
        marks = self._of.get(snapshot.path, set())
        return not marks.isdisjoint((blob.entry.path, *blob.contents))

    def _add(self, snapshot: Snapshot, repository: Repository, *, is_going: bool) -> None:
        hops = {file.hop for file in snapshot.files if file.hop is not None}
        contents = {file.content for file in snapshot.files if file.content is not None}
        if not is_going:
            self._hops |= hops
            self._contents |= contents
            return
        marks: set[Path | Key] = {*hops, *contents}
        self._of[snapshot.path] = marks
        for mark in marks:
            self._going[mark].add(repository.path)


def _snapshot_item(
    snapshot: Snapshot, dead: Sequence[Blob], repository: Repository, root: Path
) -> Item:
    contents: list[Entry | Blob] = [file.entry for file in snapshot.files if file.hop is None]
    contents += dead
    return Item(
        kind=Kind.SNAPSHOT,
        what=f"snapshot {short(snapshot.commit)}",
        base=root,
        repository=repository,
        snapshot=snapshot,
        blobs=tuple(dead),
        last_used=max((each.last_used for each in contents), default=snapshot.modified),
    )


def _counted(items: Sequence[Item], cache: Cache) -> Iterator[Item]:
    """Yield the items with the bytes that each of them frees."""
    tally = _Tally(items, cache)
    for item in items:
        yield replace(item, bytes=tally.take(item))


@dataclass
class _Tally:
    """Counts each file once, and only when all its names go."""

    items: Sequence[Item]
    cache: Cache
    names: Counter[Key] = field(default_factory=Counter)
    taken: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        entries = [entry for item in self.items for entry in _files(item)]
        self.names.update(entry.key for entry in entries)
        links = {blob.entry.path for item in self.items for blob in item.blobs if blob.payload}
        self.shared = {
            payload.entry.key
            for payload in self.cache.payloads
            if payload.references and payload.references <= links
        }

    def take(self, item: Item) -> int:
        """Return the bytes that go with an item and were not counted yet."""
        payloads = [blob.payload for blob in item.blobs if blob.payload is not None]
        shared = [entry for entry in payloads if entry.key in self.shared]
        whole = [entry for entry in _files(item) if self.names[entry.key] >= entry.names]
        fresh = {
            entry.key: entry.size for entry in (*shared, *whole) if entry.key not in self.taken
        }
        self.taken |= fresh.keys()
        folders = sum(entry.size for entry in item.entries if entry.form is Form.FOLDER)
        return sum(fresh.values()) + folders


def _files(item: Item) -> Iterator[Entry]:
    """Yield the files that an item takes a name from."""
    if item.snapshot:
        yield from (file.entry for file in item.snapshot.files if file.hop is None)
    for entry in (*(blob.entry for blob in item.blobs), *item.entries):
        if entry.form is Form.FILE:
            yield entry


def _leads_out(blob: Blob) -> bool:
    """Return whether a blob is a link to somewhere that is not ours to judge."""
    return blob.entry.form is Form.LINK and blob.payload is None


def _count(things: Sequence[object], one: str, many: str) -> str:
    return f"1 {one}" if len(things) == 1 else f"{len(things)} {many}"
