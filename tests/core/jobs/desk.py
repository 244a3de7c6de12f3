"""A home for jobs, and the means to start some."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.jobs.job import Job, Kind
from core.jobs.launch import start_job
from core.jobs.log import Event, read_events
from core.jobs.store import JobStore
from core.paths import Paths
from tests.processes import environ_of, wait_until

ROOT = Path(__file__).parents[3]


def job_command(work: str, module: str = "tests.core.jobs.works") -> list[str]:
    """Return the command that does a work of ours."""
    return [sys.executable, "-m", "mlxbun_cli.job", f"{module}:{work}"]


def job_environ(home: Path) -> dict[str, str]:
    """Return variables with which a process finds the home, and this repository."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return environ_of(home, PYTHONPATH=path)


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Where jobs lie."""

    environ: dict[str, str]

    @property
    def paths(self) -> Paths:
        return Paths.from_environ(self.environ)

    @property
    def store(self) -> JobStore:
        return JobStore(self.paths.jobs_folder)

    def start(
        self, work: str, *, kind: Kind = "finetune", accelerator: bool = True, **config: Any
    ) -> Job:
        return start_job(
            self.store,
            kind,
            config,
            command=job_command(work),
            environ=self.environ,
            accelerator=accelerator,
        )

    def job(self, job_id: str) -> Job:
        job = self.store.get(job_id)
        assert job is not None
        return job

    def end(self, job: Job) -> Job:
        """Wait for the end of a job and return it."""
        wait_until(lambda: self.job(job.id).is_over)
        return self.job(job.id)

    def running(self, job: Job) -> Job:
        """Wait until a job runs and return it."""
        wait_until(lambda: self.job(job.id).status != "queued")
        return self.job(job.id)


def events_of(job: Job) -> list[Event]:
    """Return all events of a job."""
    events: list[Event] = []
    offset = 0
    while True:
        more, behind = read_events(job.log_path, offset)
        if behind == offset:
            return events
        events += more
        offset = behind


def types_of(job: Job) -> list[str]:
    """Return the types of all events of a job."""
    return [event["type"] for event in events_of(job)]
