"""Which snapshots of a cache nobody needs any more, and why others stay. Pure.

A snapshot is superseded when no branch or tag stands for it. It stays nevertheless when somebody
uses it, when it was asked for, or when it holds a file of which no snapshot that stays has any
version: a new revision of which only a part was fetched does not supersede the whole old one. In a
repository without refs, as a download of a commit makes it, the newest snapshot is what its name
stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import NotFound
from core.gc.seen import Repository, Snapshot, snapshot_of
from core.registry.files import printable
from core.registry.names import repository_name
from core.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from core.gc.seen import Cache, Key
    from core.gc.wishes import Wishes

_HELPERS = (".DS_Store", "Thumbs.db", "desktop.ini")
_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Something that could be thought to be garbage and stays."""

    repository: Repository
    """Where it lies."""
    what: str
    """What it is: `snapshot 0123abcd`, or `repository`."""
    path: Path
    """Its folder."""
    reason: str
    """Why it stays, as a clause."""
    snapshot: Snapshot | None = None
    """The snapshot; None: it is something else."""
    unique: tuple[str, ...] = ()
    """The files of a snapshot of which no other one has a version, when it stays for them."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which snapshots go."""

    going: Mapping[Path, Snapshot]
    """By their folders: repository by repository, the newest first."""
    kept: tuple[Kept, ...]
    """Those that are superseded and stay, and repositories that are left alone."""


def choose(cache: Cache, wishes: Wishes, *, now: float) -> Choice:
    """Return which snapshots go.

    Raises:
        NotFound: no repository has the name that is wished.
    """
    going: dict[Path, Snapshot] = {}
    kept: list[Kept] = []
    for repository in wished(cache, wishes):
        if (reason := closed(repository, cache)) is not None:
            kept.append(_kept(repository, reason))
            continue
        selection = _Selection(repository, cache, wishes, now)
        going |= {snapshot.path: snapshot for snapshot in selection.going}
        kept += selection.kept
    for snapshot, by in _leaned_on(going, cache):
        kept.append(_kept(_home(snapshot, cache), f"{by} links into it", snapshot))
    return Choice(going=going, kept=tuple(kept))


def wished(cache: Cache, wishes: Wishes) -> list[Repository]:
    """Return the repositories that are meant: one of that very name, else all with a part of it.

    Raises:
        NotFound: there is none.
    """
    if wishes.repository is None:
        return list(cache.repositories)
    name = repository_name(wishes.repository)
    exact = [each for each in cache.repositories if name in (each.label, each.repo_id)]
    part = [each for each in cache.repositories if name.lower() in each.label.lower()]
    if not (exact or part):
        raise NotFound(
            f"No repository in {cache.root} has {printable(name)!r} in its name.",
            hint="`mlxbun ls` lists the models that are there.",
        )
    return exact or part


def closed(repository: Repository, cache: Cache) -> str | None:
    """Return why nothing in a repository may be deleted, as a clause; None: something may."""
    if repository.problem is not None:
        return repository.problem
    listed = repository.kind == "model" and repository.repo_id in cache.downloading
    return "it is being downloaded" if repository.busy or listed else None


def age_of(seconds: float) -> str:
    """Return an age roughly: `41 days`, `3 h 10 min`."""
    days = int(seconds / (24 * _HOUR))
    if days:
        return "1 day" if days == 1 else f"{days} days"
    return format_seconds(seconds) if seconds >= 60 else "a moment"


def short(commit: str) -> str:
    """Return enough of a commit to know it by."""
    return printable(commit)[:8]


class _Selection:
    """The superseded snapshots of one repository, parted into those that go and those that stay."""

    def __init__(self, repository: Repository, cache: Cache, wishes: Wishes, now: float) -> None:
        self._repository = repository
        self._cache = cache
        self._wishes = wishes
        self._now = now
        self.kept: list[Kept] = []
        self._staying, superseded = _parted(repository)
        free = [each for each in superseded if not self._is_in_use(each)]
        self._used = _times(repository)
        self._needed = {file.content for each in self._staying for file in each.files}
        old = [each for place, each in enumerate(free) if not self._is_wanted(each, place)]
        self.going = [each for each in old if not self._is_unique(each)]

    def _is_in_use(self, snapshot: Snapshot) -> bool:
        uses = self._cache.uses
        reason = (
            uses.snapshots.get(snapshot.path)
            or uses.repositories.get(self._repository.path)
            or snapshot.obstacle
        )
        return reason is not None and self._keep(snapshot, reason)

    def _is_wanted(self, snapshot: Snapshot, place: int) -> bool:
        """Return whether it is one of the newest that are asked for, or was used lately."""
        if place < self._wishes.keep:
            return self._keep(snapshot, f"--keep {self._wishes.keep} asks for it")
        age = self._now - last_used(snapshot, self._used, self._needed)
        if self._wishes.older_than is not None and age < self._wishes.older_than:
            return self._keep(snapshot, f"it was used {age_of(age)} ago")
        return False

    def _is_unique(self, snapshot: Snapshot) -> bool:
        """Return whether it holds a file that none of those that stay has."""
        if self._wishes.unique:
            return False
        missing = sorted(_names([snapshot]) - _names(self._staying))
        if not missing:
            return False
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        reason = f"no other snapshot has {printable(missing[0], 40)}{others}"
        return self._keep(snapshot, reason, tuple(missing))

    def _keep(self, snapshot: Snapshot, reason: str, unique: tuple[str, ...] = ()) -> bool:
        self._staying.append(snapshot)
        self.kept.append(_kept(self._repository, reason, snapshot, unique))
        return True


def last_used(
    snapshot: Snapshot, used: Mapping[Key | None, float], needed: set[Key | None]
) -> float:
    """Return when a snapshot was last used, in seconds since 1970.

    Contents that a snapshot which stays has, too, say nothing about this one.

    Args:
        snapshot: the snapshot.
        used: when each content was last read or written.
        needed: the contents of snapshots that stay.
    """
    own = {file.content for file in snapshot.files} - needed
    return max((used[key] for key in own if key in used), default=snapshot.modified)


def _times(repository: Repository) -> dict[Key | None, float]:
    files = [file.entry for each in repository.snapshots for file in each.files if not file.hop]
    contents = [blob.payload or blob.entry for blob in repository.blobs]
    return {entry.key: entry.last_used for entry in (*contents, *files)}


def _parted(repository: Repository) -> tuple[list[Snapshot], list[Snapshot]]:
    """Return the snapshots that the repository's name stands for, and the superseded ones."""
    here = {snapshot.commit for snapshot in repository.snapshots}
    standing = repository.refs & here or {each.commit for each in repository.snapshots[:1]}
    parts: tuple[list[Snapshot], list[Snapshot]] = ([], [])
    for snapshot in repository.snapshots:  # the newest first
        parts[snapshot.commit not in standing].append(snapshot)
    return parts


def _names(snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the names of the files that are really there."""
    return {
        file.name
        for snapshot in snapshots
        for file in snapshot.files
        if file.content is not None and file.entry.path.name not in _HELPERS
    }


def _leaned_on(going: dict[Path, Snapshot], cache: Cache) -> Iterator[tuple[Snapshot, str]]:
    """Take the snapshots out into which those that stay have links, and yield them with by whom."""
    staying = [s for each in cache.repositories for s in each.snapshots if s.path not in going]
    while staying:
        leaning, staying = staying, []
        for snapshot in leaning:
            for target in _targets(snapshot, cache.root) & going.keys():
                staying.append(going.pop(target))
                yield staying[-1], f"snapshot {short(snapshot.commit)}"


def _targets(snapshot: Snapshot, root: Path) -> set[Path]:
    return {
        found
        for file in snapshot.files
        for hop in file.leads_to
        if hop.parent.name != "blobs" and (found := snapshot_of(hop, root)) is not None
    }


def _home(snapshot: Snapshot, cache: Cache) -> Repository:
    path = snapshot.path.parent.parent
    return next(each for each in cache.repositories if each.path == path)


def _kept(
    repository: Repository,
    reason: str,
    snapshot: Snapshot | None = None,
    unique: tuple[str, ...] = (),
) -> Kept:
    return Kept(
        repository=repository,
        what=f"snapshot {short(snapshot.commit)}" if snapshot else "repository",
        path=snapshot.path if snapshot else repository.path,
        reason=reason,
        snapshot=snapshot,
        unique=unique,
    )
