"""Asks a job to end."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from core.errors import MlxbunError, NotFound, UsageProblem
from core.servers import process_born

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.jobs.job import Job
    from core.jobs.store import JobStore

_POLL_SECONDS = 0.1


def cancel_job(
    store: JobStore,
    job_id: str,
    *,
    patience: float,
    born: Callable[[int], str | None] = process_born,
) -> Job:
    """Ask a job to end, wait for that, and return the job as it is then.

    It is asked by a note in its row and, where its process runs on this machine, by SIGTERM. The
    process ends in order: it keeps what it has and fails with the error `cancelled`.

    Args:
        store: where jobs are kept.
        job_id: a whole id.
        patience: seconds to wait; a job that is still not over then will be, a little later.
        born: tells when a process started, or None.

    Raises:
        NotFound: there is none of that id.
        UsageProblem: it is over already.
        MlxbunError: the list cannot be read or written.
    """
    before = store.get(job_id)
    if before is not None and before.is_over:
        raise UsageProblem(f"Job {job_id} is over already: {before.status}.")
    job = _wait(store, _asked(store, job_id, before), patience=patience, born=born)
    if job is None:
        raise NotFound(f"There is no job {job_id}.")
    return job


def _asked(store: JobStore, job_id: str, before: Job | None) -> Job | None:
    """Note the wish in the job's row. Where the disk is full, the signal has to do."""
    try:
        return store.ask_to_cancel(job_id)
    except MlxbunError:
        if before is None or not (before.claimed and before.owner.is_here):
            raise
        return before


def _wait(
    store: JobStore, job: Job | None, *, patience: float, born: Callable[[int], str | None]
) -> Job | None:
    """Signal a job's process once, and return the job when it is over or patience is."""
    deadline = time.monotonic() + patience
    signalled = False
    while job is not None and not job.is_over:
        # Before it is claimed, the process may be that of who asked for the job.
        if job.claimed and job.owner.is_here and not signalled:
            signalled = True
            _signal(job, born)
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_SECONDS)
        job = store.get(job.id)
    return job


def _signal(job: Job, born: Callable[[int], str | None]) -> None:
    if born(job.owner.pid) == job.owner.born:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(job.owner.pid, signal.SIGTERM)
