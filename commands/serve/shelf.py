"""A cache of the list of models: it is read from disk at most once in half a minute.

A quantization that ends, in any process, invalidates it at once.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from core.errors import MlxbunError
from core.jobs.store import JobStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from commands.serve.verdicts import JudgedModel
    from commands.serve.workers import Workers
    from core.paths import Paths

_KEPT_SECONDS = 30.0
_LOOKED_AT = 20  # jobs; they end in the order in which they were asked for


def last_made(paths: Paths) -> object:
    """Return a value that changes when a quantization ends; None: the jobs cannot be read."""
    try:
        jobs = JobStore(paths.jobs_folder).recent(kind="quantize", limit=_LOOKED_AT)
    except MlxbunError:
        return None
    return [(job.id, job.ended_at) for job in jobs if job.is_over]


class Shelf:
    """Keeps one list. Lives on the event loop; the reading happens in a worker."""

    def __init__(
        self,
        read: Callable[[], list[JudgedModel]],
        workers: Workers,
        *,
        mark: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take who reads.

        Args:
            read: returns the models; may take seconds.
            workers: where that happens.
            mark: returns something that changes with the models; quick, in a worker too.
            clock: a clock in seconds.
        """
        self._read = read
        self._workers = workers
        self._mark = mark
        self._clock = clock
        self._turn = asyncio.Lock()
        self._kept: tuple[float, object, list[JudgedModel]] | None = None
        self._true_since = clock()

    async def models(self, *, fresh: bool) -> list[JudgedModel]:
        """Return the models.

        Args:
            fresh: as they are now, not as they were within the last half minute.

        Raises:
            StoreCorrupt: the cache folder cannot be read.
        """
        now = self._clock()
        wanted = max(now if fresh else now - _KEPT_SECONDS, self._true_since)
        async with self._turn:
            # Of those that wait for their turn, the first reads for all of them.
            mark = await self._workers.run(self._mark)
            if self._kept is None or self._kept[0] < wanted or self._kept[1] != mark:
                begun = self._clock()
                self._kept = begun, mark, await self._workers.run(self._read)
            return self._kept[2]

    def forget(self) -> None:
        """Take what was read before now for wrong."""
        self._true_since = self._clock()
