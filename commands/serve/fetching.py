"""The downloads that were started over HTTP: they run beside the server and end with it."""

from __future__ import annotations

import time
from threading import Event, Lock
from typing import TYPE_CHECKING

from core.errors import EngineStopped, MlxbunError, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.download.events import Event as DownloadEvent
    from core.download.job import DownloadResult
    from core.download.work import Work
    from core.paths import Paths

# How long the Hub gets to say that there is no such repository, while the client waits.
_FIRST_WORD_SECONDS = 2.0
_GLANCE_SECONDS = 0.02


class Downloads:
    """Starts downloads, and ends all of them at once. Safe in any thread."""

    def __init__(self) -> None:
        self._over = Event()
        self._lock = Lock()
        self._works: list[Work[DownloadResult]] = []

    def start(self, repo: str, *, paths: Paths, environ: Mapping[str, str]) -> None:
        """Start to fetch a repository, and wait a moment for the Hub's first word.

        What goes wrong later, or takes longer to be known, stands in the list of downloads.

        Args:
            repo: what to fetch: `org/name`, or `org/name@revision`.
            paths: our folders and the Hugging Face cache.
            environ: the environment, for the Hub's variables.

        Raises:
            AlreadyRunning: this or another process fetches the repository already.
            NotFound: the Hub has no such repository or revision.
            DownloadFailed: the network may not be used.
            UsageProblem: it names no repository, HF_ENDPOINT is no address, or HF_TOKEN no token.
            EngineStopped: the server ends.
        """
        from core.download.events import Planned
        from core.download.job import DownloadRequest, start_download
        from core.download.names import parse_name

        request, planned = DownloadRequest(name=parse_name(repo)), Event()

        def listen(event: DownloadEvent, /) -> None:
            if isinstance(event, Planned):
                planned.set()

        with self._lock:
            if self._over.is_set():
                raise EngineStopped("The server is shutting down, and fetches nothing any more.")
            work = start_download(
                request,
                paths=paths,
                environ=environ,
                on_event=listen,
                cancel=self._over,
            )
            self._works = [each for each in self._works if not each.wait(0)]
            self._works.append(work)
        _raise_unknown(work, planned)

    def cancel(self) -> None:
        """End all of them, and start no more; what has come stays on the disk. Returns at once."""
        self._over.set()

    def wait(self, seconds: float) -> None:
        """Wait for those that were ended to note that they are."""
        deadline = time.monotonic() + seconds
        for work in list(self._works):
            work.wait(max(0.0, deadline - time.monotonic()))


def _raise_unknown(work: Work[DownloadResult], planned: Event) -> None:
    """Wait for a download to know what it fetches.

    Raises:
        NotFound: there is nothing to fetch.
    """
    deadline = time.monotonic() + _FIRST_WORD_SECONDS
    while not planned.is_set() and not work.wait(0) and time.monotonic() < deadline:
        planned.wait(_GLANCE_SECONDS)
    if not work.wait(0):
        return
    try:
        work.result()
    except NotFound:
        raise
    except MlxbunError:
        return  # it stands in the list of downloads
