"""What would be deleted, with the bytes that this frees. Pure: a look in, a plan out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from core.download.layout import PARTIAL_SUFFIX
from core.gc.choose import Choice, Kept, age_of, choose, closed, short, wished
from core.gc.links import Links, blobs_of
from core.gc.own import DAY
from core.gc.seen import Form
from core.gc.tally import counted

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
    free: frozenset[Key] = frozenset()
    """Contents of the shared store that go with the last link to them."""

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
    links = Links(cache, choice.going)
    planner = _Planner(cache, wishes, choice, links, now)
    items: list[Item] = []
    for repository in wished(cache, wishes):
        if closed(repository, cache) is None:
            items += planner.of_repository(repository)
    if wishes.repository is None:
        items += planner.of_store()
    items += planner.of_locks()
    if wishes.repository is None:
        items += planner.of_ours()
    free = [each for each in cache.payloads if not links.need_content(each.entry.key)]
    return Plan(
        cache=cache,
        wishes=wishes,
        items=tuple(counted(items, free)),
        kept=(*choice.kept, *planner.kept),
        free=frozenset(each.entry.key for each in free),
    )


class _Planner:
    def __init__(
        self, cache: Cache, wishes: Wishes, choice: Choice, links: Links, now: float
    ) -> None:
        self._cache = cache
        self._wishes = wishes
        self._now = now
        self._going = choice.going
        self._links = links
        self.kept: list[Kept] = []

    def of_repository(self, repository: Repository) -> Iterator[Item]:
        """Yield what goes of one repository: snapshots, contents, beginnings, remains."""
        free = [blob for blob in repository.blobs if not self._links.need(blob, repository)]
        left = {blob.entry.path: blob for blob in free if not _leads_out(blob)}
        for snapshot in repository.snapshots:
            if snapshot.path in self._going:
                dead = blobs_of(snapshot, left.values())
                for blob in dead:
                    del left[blob.entry.path]
                yield _snapshot_item(snapshot, dead, repository, self._cache.root)
        yield from self._contents(repository, list(left.values()))
        # What was being deleted was old enough then.
        old = [e for e in repository.leftovers if e.form is Form.FOLDER or self._is_old(e, DAY)]
        yield from self._entries(
            Kind.LEFTOVERS, old, ("remnant", "remnants"), repository=repository
        )

    def _contents(self, repository: Repository, orphans: Sequence[Blob]) -> Iterator[Item]:
        """Yield orphaned contents and beginnings, but for those of a download to go on with."""
        limit = self._resumable_for
        young, partials = self._parted(repository.partials, limit)
        ours = [each for each in young if _is_ours(each)]
        # Only a download of ours fetches everything before it links anything.
        is_resumable = bool(ours) or self._was_interrupted(repository)
        waiting, old = self._parted(orphans, limit if is_resumable else 0.0)
        self._note(repository, [each for each in young if not _is_ours(each)], _INCOMPLETE, "")
        self._note(repository, ours, _INCOMPLETE, _GOES_ON)
        if is_resumable:
            self._note(repository, waiting, _WAITING, _GOES_ON)
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
            and not self._links.lead_to(payload.entry.key)
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

    def _was_interrupted(self, repository: Repository) -> bool:
        """Return whether our list of downloads says that one may be gone on with."""
        stopped = self._cache.interrupted.get(repository.repo_id, 0.0)
        return repository.kind == "model" and self._now - stopped < self._resumable_for

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


def _is_ours(partial: Entry) -> bool:
    return partial.path.name.endswith(PARTIAL_SUFFIX)


def _leads_out(blob: Blob) -> bool:
    """Return whether a blob is a link to somewhere that is not ours to judge."""
    return blob.entry.form is Form.LINK and blob.payload is None


def _count(things: Sequence[object], one: str, many: str) -> str:
    return f"1 {one}" if len(things) == 1 else f"{len(things)} {many}"
