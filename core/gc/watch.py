"""Who is at work now, asked again and again while things are deleted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.gc.company import find_uses, look_for_downloads
from core.gc.look import Obstacle
from core.gc.repository import LOCKS, survey_locks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from core.gc.look import Ground
    from core.gc.seen import Key, Repository, Snapshot, Uses
    from core.paths import Paths

_SETTLED = 0.05  # seconds after which a file's time tells for sure whether it was written to


class Watch:
    """Looks around in one cache. One thread at a time."""

    def __init__(self, ground: Ground, paths: Paths, model_folders: Sequence[str]) -> None:
        """Look at the folders of models once; servers, jobs and downloads are looked for each time.

        Args:
            ground: the cache.
            paths: our folders.
            model_folders: the setting of that name.
        """
        self._ground = ground
        self._paths = paths
        self._folders = find_uses(ground.root, paths, model_folders)
        self._downloads: frozenset[str] = frozenset()
        self._stamp: tuple[int, int, int] | None = None

    @property
    def contents(self) -> frozenset[Key]:
        """Files that folders of models and servers link to."""
        return self._folders.contents

    def check_idle(self, repository: Repository) -> None:
        """Check that nobody downloads a repository.

        Raises:
            Obstacle: somebody does.
        """
        self.check_unlisted(repository)
        _, busy = survey_locks(self._ground.root / LOCKS / repository.path.name, self._ground)
        if busy:
            raise Obstacle("it is being downloaded")

    def check_unlisted(self, repository: Repository) -> None:
        """Check that no mlxbun downloads a repository; cheap enough for every file.

        Raises:
            Obstacle: one does.
        """
        if repository.kind == "model" and repository.repo_id in self._running():
            raise Obstacle("it is being downloaded")

    def check_unused(self, repository: Repository, snapshot: Snapshot) -> None:
        """Check that neither a server, nor a job, nor a folder of models needs a snapshot.

        Raises:
            Obstacle: one does; its text says which.
        """
        for uses in (self._folders, find_uses(self._ground.root, self._paths, ())):
            reason = _reason(uses, repository, snapshot)
            if reason is not None:
                raise Obstacle(reason)

    def _running(self) -> frozenset[str]:
        """Return the repo ids of running downloads; the list is read again once it has changed."""
        stamp = _stamp(self._paths.downloads_file)
        settled = stamp is not None and time.time() - stamp[0] / 1e9 > _SETTLED
        if stamp != self._stamp or not settled:
            self._downloads = look_for_downloads(self._paths).running
            self._stamp = stamp
        return self._downloads


def _reason(uses: Uses, repository: Repository, snapshot: Snapshot) -> str | None:
    return uses.snapshots.get(snapshot.path) or uses.repositories.get(repository.path)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
