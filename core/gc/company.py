"""Who else is at work in the cache: servers, jobs, downloads, and folders that link into it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from core.download.ledger import Ledger
from core.errors import MlxbunError
from core.gc.look import Ways, content_of
from core.gc.seen import Uses, snapshot_of
from core.jobs.store import JobStore
from core.registry.cache import repo_folder
from core.registry.places import plain_folders
from core.servers import read_servers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from core.gc.seen import Key
    from core.jobs.job import Job
    from core.paths import Paths
    from core.servers import RunningServer

_MOST_FILES = 10_000  # of a folder of models that are looked at for links
_MOST_HOPS = 16  # from link to link
_MODELS_OF_JOBS = ("model_dir", "model_id")  # fields of a fine-tuning, of a quantization
_RECENT = 100  # downloads; the list keeps no more


@dataclass(frozen=True, kw_only=True)
class Downloads:
    """The downloads of every mlxbun on this machine."""

    running: frozenset[str]
    """Repo ids of those that run."""
    interrupted: Mapping[str, float]
    """Repo ids of those whose last try did not come to its end: when it stopped, Unix seconds."""


def look_for_downloads(paths: Paths) -> Downloads:
    """Return what the list of downloads says now."""
    last: dict[str, float | None] = {}
    records = Ledger(paths.downloads_file).recent(_RECENT)
    for record in records:  # the newest first
        over = record.state in ("failed", "cancelled")
        last.setdefault(record.repo_id, record.updated_at if over else None)
    return Downloads(
        running=frozenset(record.repo_id for record in records if record.state == "running"),
        interrupted={name: stopped for name, stopped in last.items() if stopped is not None},
    )


def find_uses(root: Path, paths: Paths, model_folders: Sequence[str]) -> Uses:
    """Return what running servers, jobs and folders of models rely on in a cache.

    Args:
        root: the cache, links in its path followed.
        paths: our folders.
        model_folders: the setting of that name.
    """
    uses = _Finder(root)
    for server in read_servers(paths.run_folder).alive:
        uses.add_server(server)
    for job in _unfinished_jobs(paths):
        uses.add_job(job)
    for place in plain_folders(map(_expanded, model_folders)):
        uses.add_folder(place.folder, f"{place.folder} leads to it")
    return uses.found()


@dataclass
class _Finder:
    root: Path
    ways: Ways = field(default_factory=Ways)
    snapshots: dict[Path, str] = field(default_factory=dict)
    repositories: dict[Path, str] = field(default_factory=dict)
    contents: set[Key] = field(default_factory=set)

    def add_server(self, server: RunningServer) -> None:
        why = f"the server {server.pid} at {server.url} serves it"
        if server.folder is not None:
            self.add_folder(Path(server.folder), why)
        else:  # an older mlxbun, which did not say which snapshot
            repository = repo_folder(self.root, server.model.partition("@")[0])
            self.repositories.setdefault(repository, why)

    def add_job(self, job: Job) -> None:
        why = f"job {job.id} works with it"
        for name in _MODELS_OF_JOBS:
            model = job.config.get(name)
            if isinstance(model, str) and model:
                self.add_folder(_expanded(model), why)
                # It may be a name, with a revision or without: whichever snapshot that means.
                repository = repo_folder(self.root, model.partition("@")[0])
                self.repositories.setdefault(repository, why)

    def add_folder(self, folder: Path, why: str) -> None:
        """Add a model's folder: it is a snapshot, or may hold links into some."""
        with suppress(OSError, ValueError):
            real = Path(os.path.realpath(folder))
            self._add_step(real, why)
            if not real.is_relative_to(self.root):
                for file in _files(real):
                    self._add_file(file, why)

    def found(self) -> Uses:
        return Uses(
            snapshots=self.snapshots,
            contents=frozenset(self.contents),
            repositories=self.repositories,
        )

    def _add_file(self, file: Path, why: str) -> None:
        if (content := content_of(file)) is not None:
            self.contents.add(content)
        for _ in range(_MOST_HOPS):
            if not file.is_symlink():
                return
            file = self.ways.hop(file)
            self._add_step(file, why)

    def _add_step(self, path: Path, why: str) -> None:
        if (snapshot := snapshot_of(path, self.root)) is not None:
            self.snapshots.setdefault(snapshot, why)


def _unfinished_jobs(paths: Paths) -> list[Job]:
    try:
        return [job for job in JobStore(paths.jobs_folder).recent() if not job.is_over]
    except MlxbunError:
        return []


def _files(folder: Path) -> Iterator[Path]:
    left = _MOST_FILES
    for parent, _, names in os.walk(folder):
        for name in names[:left]:
            yield Path(parent, name)
        left -= len(names)
        if left <= 0:
            return


def _expanded(folder: str) -> Path:
    with suppress(RuntimeError):
        return Path(folder).expanduser()
    return Path(folder)
