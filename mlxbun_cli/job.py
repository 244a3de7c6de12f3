"""The door of a job's own process: `python -m mlxbun_cli.job MODULE:FUNCTION JOB`.

The function takes a `core.jobs.JobRun`, does the work and returns a `core.jobs.Outcome`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, cast

from core.errors import MlxbunError
from core.jobs.runner import run_job
from core.paths import Paths

if TYPE_CHECKING:
    from core.jobs.run import JobRun, Outcome


def main(work: str, job_id: str) -> int:
    """Do a job's work and return the exit code."""
    environ = dict(os.environ)

    def do(run: JobRun) -> Outcome:
        # In here, so that what is wrong with the import is the job's error.
        module, _, function = work.partition(":")
        return cast("Outcome", getattr(import_module(module), function)(run))

    try:
        return run_job(job_id, do, paths=Paths.from_environ(environ), environ=environ)
    except MlxbunError as error:
        sys.stderr.write(f"mlxbun: {error.message}\n")
        return 1


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stderr.flush()
    # At once: the job is over and all of it is written, whatever a library would do at the end.
    os._exit(code)
