"""Reads a job's events as they come, from the first to the last. Knows files, and no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jobs.log import read_events

if TYPE_CHECKING:
    from core.jobs.job import Job
    from core.jobs.log import Event
    from core.jobs.store import JobStore


class Tail:
    """Where a reader of one job's log stands. For one thread at a time.

    Attributes:
        job: the job as it was when the log was read last.
        over: nothing will come any more.
    """

    def __init__(self, store: JobStore, job: Job) -> None:
        """Begin at the first event."""
        self.job = job
        self.over = False
        self._store = store
        self._offset = 0

    @property
    def started(self) -> bool:
        """Whether anything was read yet."""
        return self._offset > 0

    def read(self) -> list[Event]:
        """Return what has come since the last call; empty: nothing, yet or for good (`over`).

        Raises:
            MlxbunError: the list of jobs cannot be read.
        """
        # First the row: what it says is over has written its last event before.
        self.job = self._store.get(self.job.id) or self.job
        before = self._offset
        events, self._offset = read_events(self.job.log_path, before)
        self.over = self.job.is_over and self._offset == before
        return events
