"""Jobs: long work in a process of its own, with a row in a store and a log of events.

Whoever wants work done calls `start_job` with the command that does it. That process hands its
work to `run_job`, which keeps the row and the log; everybody else reads them (`JobStore`, `Tail`)
or asks for the end (`cancel_job`). What uses the accelerator takes turns: `core.jobs.lease`.
"""

from core.jobs.cancel import cancel_job
from core.jobs.job import KINDS, Job, Kind, Status
from core.jobs.launch import start_job
from core.jobs.run import JobRun, Outcome
from core.jobs.runner import Patience, run_job
from core.jobs.stop import Cancelled
from core.jobs.store import JobStore
from core.jobs.tail import Tail

__all__ = [
    "KINDS",
    "Cancelled",
    "Job",
    "JobRun",
    "JobStore",
    "Kind",
    "Outcome",
    "Patience",
    "Status",
    "Tail",
    "cancel_job",
    "run_job",
    "start_job",
]
