"""Deleting what a plan holds. Each thing is looked at again, and stays when it has changed.

The order keeps every state in between readable, wherever a crash comes: a snapshot leaves the
cache in one step, by a new name beside `snapshots/`, and is taken apart there; contents go when no
snapshot links to them any more; refs are not touched. What a crash leaves is garbage to the next
plan.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from core.errors import AlreadyRunning, MlxbunError
from core.gc.locks import holding, holding_existing, is_held
from core.gc.look import Ground, Obstacle, ground_at, look_at, look_at_whole
from core.gc.plan import Kind
from core.gc.remove import CHANGED, remove_file, remove_tree
from core.gc.repository import LOCKS
from core.gc.seen import Form
from core.gc.sweep import RepositorySweep, remove_payload
from core.gc.watch import Watch
from core.servers import read_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from core.gc.plan import Item, Plan
    from core.gc.seen import Entry, Repository
    from core.paths import Paths

_ALONE = "mlxbun.gc.lock"


@dataclass(frozen=True, kw_only=True)
class Mishap:
    """Something of a plan that is still there."""

    path: Path
    """What."""
    reason: str
    """Why, as a clause."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of one item of a plan."""

    item: Item
    """The item."""
    deleted: tuple[Path, ...]
    """What is gone."""
    bytes: int
    """Bytes that the disk has got back."""
    skipped: tuple[Mishap, ...]
    """What stays because it has changed or is in use."""
    failed: tuple[Mishap, ...]
    """What could not be deleted."""


def execute(plan: Plan, *, paths: Paths, model_folders: Sequence[str] = ()) -> Iterator[Result]:
    """Delete what a plan holds, and yield what became of each item once it is settled.

    Args:
        plan: what to delete; nothing else is.
        paths: our folders and the cache.
        model_folders: the setting of that name: what is linked from there is in use.

    Raises:
        AlreadyRunning: another process does the same in this cache.
        MlxbunError: the cache cannot be written at all.
    """
    if not plan.items:
        return
    with _alone(ground_at(plan.cache.root)) if plan.cache.exists else nullcontext():
        work = _Work(plan, paths, model_folders)
        for repository, items in groupby(plan.items, key=lambda item: item.repository):
            if repository is not None:
                yield from work.in_repository(repository, list(items))
            else:
                yield from map(work.elsewhere, items)


class _Report:
    """Collects what becomes of one item."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self._deleted: list[Path] = []
        self._bytes = 0
        self._skipped: list[Mishap] = []
        self._failed: list[Mishap] = []

    def attempt(self, path: Path, remove: Callable[[], int]) -> None:
        """Remove one thing and note how that went."""
        try:
            self._bytes += remove()
        except Obstacle as obstacle:
            self._skipped.append(Mishap(path=path, reason=str(obstacle)))
        except FileNotFoundError:
            self._skipped.append(Mishap(path=path, reason="it is gone already"))
        except OSError as problem:
            reason = problem.strerror or type(problem).__name__
            self._failed.append(Mishap(path=path, reason=reason))
        else:
            self._deleted.append(path)

    def result(self) -> Result:
        """Return all of it."""
        return Result(
            item=self.item,
            deleted=tuple(self._deleted),
            bytes=self._bytes,
            skipped=tuple(self._skipped),
            failed=tuple(self._failed),
        )


@dataclass
class _Work:
    plan: Plan
    paths: Paths
    model_folders: Sequence[str]
    grounds: dict[Path, Ground] = field(default_factory=dict)
    watch: Watch | None = None

    def in_repository(self, repository: Repository, items: list[Item]) -> Iterator[Result]:
        """Delete in one repository: all snapshots before any content."""
        ground = self._ground(self.plan.cache.root)
        if self.watch is None:
            self.watch = Watch(ground, self.paths, self.model_folders)
        sweep = RepositorySweep(repository, ground, self.watch, self.plan.free)
        reports = [_Report(item) for item in items]
        for report in reports:
            if (snapshot := report.item.snapshot) is not None:
                report.attempt(snapshot.path, partial(sweep.remove_snapshot, snapshot))
        for report in reports:
            for blob in report.item.blobs:
                report.attempt(blob.entry.path, partial(sweep.remove_blob, blob))
            begun = report.item.kind is Kind.INCOMPLETE
            remove = sweep.remove_partial if begun else partial(self._remove_leftover, ground)
            for entry in report.item.entries:
                report.attempt(entry.path, partial(remove, entry))
            yield report.result()

    def elsewhere(self, item: Item) -> Result:
        """Delete one item that belongs to no repository."""
        report = _Report(item)
        ground = self._ground(item.base)
        ways = {Kind.LOCKS: _remove_lock, Kind.SHARED: remove_payload}
        remove = ways.get(item.kind, self._remove_leftover)
        for entry in item.entries:
            report.attempt(entry.path, partial(remove, ground, entry))
        return report.result()

    def _remove_leftover(self, ground: Ground, entry: Entry) -> int:
        self._check_left(entry)
        if entry.form is not Form.FOLDER:
            return remove_file(ground, entry)
        now = look_at(entry.path)
        ground.check(now)
        if look_at_whole(now, ground) != entry:
            raise Obstacle(CHANGED)
        return remove_tree(ground, entry.path)

    def _check_left(self, entry: Entry) -> None:
        """Check that nobody works with something again.

        Raises:
            Obstacle: somebody does.
        """
        if entry.form is not Form.FILE and is_held(self.paths.cache / "starter.lock"):
            raise Obstacle("the starter is being fetched")
        alive = {f"{server.pid}.json" for server in read_servers(self.paths.run_folder).alive}
        if entry.path.parent.name == self.paths.run_folder.name and entry.path.name in alive:
            raise Obstacle("its server runs")

    def _ground(self, folder: Path) -> Ground:
        if folder not in self.grounds:
            self.grounds[folder] = ground_at(folder)
        return self.grounds[folder]


def _remove_lock(ground: Ground, entry: Entry) -> int:
    """Delete a lock file while we hold it: whoever waits for it then looks again."""
    with holding_existing(entry.path) as held:
        if not held:
            raise Obstacle("somebody holds it")
        return remove_file(ground, entry)


@contextmanager
def _alone(ground: Ground) -> Iterator[None]:
    """Keep other tidying out of a cache while the block runs, where a lock can be made.

    Raises:
        AlreadyRunning: it is under way.
        MlxbunError: the cache cannot be written.
    """
    if os.statvfs(ground.root).f_flag & os.ST_RDONLY:
        raise MlxbunError(f"The disk of {ground.root} is read-only: nothing can be deleted there.")
    with ExitStack() as stack:
        try:
            with suppress(FileNotFoundError):
                ground.check(look_at(ground.root / LOCKS))
            alone = stack.enter_context(holding(ground.root / LOCKS / _ALONE, is_ours=True))
        except (OSError, Obstacle):
            alone = True  # everything is looked at again anyway
        if not alone:
            raise AlreadyRunning(
                f"Another mlxbun gc is deleting in {ground.root}.",
                hint="Look again when it is done.",
            )
        yield
