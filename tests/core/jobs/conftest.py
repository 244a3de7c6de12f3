"""A desk of its own for each test; nothing that it started outlives it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from core.servers import process_born
from tests.core.jobs.desk import Desk, job_environ


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(environ=job_environ(tmp_path / "home"))
    yield desk
    for job in desk.store.recent():
        ours = job.owner.pid != os.getpid() and process_born(job.owner.pid) == job.owner.born
        if ours and not job.is_over:
            with suppress(ProcessLookupError):
                os.kill(job.owner.pid, signal.SIGKILL)
