"""Starts a job's own process, which lives on when its parent ends or somebody presses Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from core.errors import MlxbunError
from core.jobs.ending import in_one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from core.jobs.job import Job, Kind
    from core.jobs.store import JobStore


def start_job(
    store: JobStore,
    kind: Kind,
    config: Mapping[str, Any],
    *,
    command: Sequence[str],
    environ: Mapping[str, str],
    accelerator: bool = True,
    check: Callable[[], None] = lambda: None,
) -> Job:
    """Keep a new job, start its process, and return the job, still queued.

    A job that `check` refuses has failed already and has no process.

    The process has a session of its own, no stdin, and a file of the job for its output.

    Args:
        store: where jobs are kept.
        kind: what sort of work it is.
        config: what is asked for, as JSON has it.
        command: what does it; the job's id is added to its end. It is to call `run_job`.
        environ: the variables of the process.
        accelerator: it takes turns with others that use the accelerator.
        check: raises `MlxbunError` where the work cannot be done.

    Raises:
        MlxbunError: the job cannot be kept, or its process not be started.
    """
    refusal = _refusal(check)
    job = store.add(kind, config, accelerator=accelerator)
    if refusal is not None:
        return store.fail(job, refusal)
    try:
        process = _start([*command, job.id], job, environ)
    except OSError as problem:
        told = f"The job's process could not be started: {problem.strerror or problem}."
        store.fail(job, told)
        raise MlxbunError(told) from problem
    # A child that ended stays in the system's list until its parent has asked.
    threading.Thread(target=process.wait, name=f"mlxbun-job-{job.id}", daemon=True).start()
    with suppress(MlxbunError):  # until the process claims the job, that depends on this one, then
        store.hand_over(job.id, process.pid)
    return job


def _refusal(check: Callable[[], None]) -> str | None:
    """Return why a job cannot be done, in its own words; None: nothing speaks against it."""
    try:
        check()
    except MlxbunError as problem:
        return in_one_line(problem)
    return None


def _start(command: list[str], job: Job, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    output = os.open(job.output_file, flags, 0o644)
    try:
        return subprocess.Popen(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)
