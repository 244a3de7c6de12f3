"""The list of models as it was a moment ago: whoever asks twice in half a minute reads it once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from commands.serve.verdicts import JudgedModel
    from commands.serve.workers import Workers

_KEPT_SECONDS = 30.0


class Shelf:
    """Keeps one list. Lives on the event loop; the reading happens in a worker."""

    def __init__(
        self,
        read: Callable[[], list[JudgedModel]],
        workers: Workers,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take who reads.

        Args:
            read: returns the models; may take seconds.
            workers: where that happens.
            clock: a clock in seconds.
        """
        self._read = read
        self._workers = workers
        self._clock = clock
        self._turn = asyncio.Lock()
        self._kept: tuple[float, list[JudgedModel]] | None = None
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
            if self._kept is None or self._kept[0] < wanted:
                begun = self._clock()
                self._kept = begun, await self._workers.run(self._read)
            return self._kept[1]

    def forget(self) -> None:
        """Take what was read before now for wrong."""
        self._true_since = self._clock()
