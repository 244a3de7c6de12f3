"""The uploads that were started over HTTP: clients wait for them, and they end with the server."""

from __future__ import annotations

import time
from contextlib import contextmanager
from threading import Condition
from typing import TYPE_CHECKING

from core.errors import EngineStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from threading import Event

    from core.paths import Paths
    from core.upload.target import RepoType


class Uploads:
    """Runs uploads, and ends all of them at once. Safe in any thread."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._running: set[Event] = set()
        self._over = False

    def run(
        self,
        repo_id: str,
        source: Callable[[], Path],
        *,
        repo_type: RepoType,
        private: bool,
        paths: Paths,
        environ: Mapping[str, str],
        cancel: Event,
    ) -> str:
        """Upload a folder and return the address of its repository.

        Args:
            repo_id: the repository; made when it is missing.
            source: returns what to upload; called once it is known that there is a token.
            repo_type: its type; what lies there must be of it.
            private: whether a repository that is made is private.
            paths: our folders and the Hugging Face cache.
            environ: the environment, for the Hub's variables.
            cancel: ends the upload once it is set.

        Raises:
            MlxbunError: as `core.upload`, or the folder holds nothing of that type.
            EngineStopped: the server ends.
        """
        from core.upload.job import check_way, start_upload
        from core.upload.plan import UploadRequest, plan_upload
        from core.upload.sources import check_links, check_source
        from core.upload.target import parse_target

        with self._counted(cancel):
            target = parse_target(repo_id)
            check_way(paths, environ)
            folder = source()
            check_source(folder, repo_type, home=environ.get("HOME"))
            request = UploadRequest(source=folder, target=target, private=private)
            plan = plan_upload(request, hub_cache=paths.hub_cache)
            check_links(folder, plan.files)
            work = start_upload(plan, paths=paths, environ=environ, cancel=cancel)
            return work.result().url

    @property
    def running(self) -> int:
        """How many run."""
        return len(self._running)

    def cancel(self) -> None:
        """End all of them, and start no more. Returns at once."""
        with self._changed:
            self._over = True
            for each in self._running:
                each.set()

    def wait(self, seconds: float) -> None:
        """Wait for those that were ended."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._running and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)

    @contextmanager
    def _counted(self, cancel: Event) -> Iterator[None]:
        with self._changed:
            if self._over:
                raise EngineStopped("The server is shutting down, and sends nothing any more.")
            self._running.add(cancel)
        try:
            yield
        finally:
            with self._changed:
                self._running.discard(cancel)
                self._changed.notify_all()
