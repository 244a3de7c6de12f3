"""What a job's own process does around its work: its turn, its signs of life, and every ending.

A thread writes the row, once a second where there is news, takes what the process writes to stdout
and stderr into the log, and sees to it that a job that was asked to end does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import MlxbunError
from core.jobs.ending import in_one_line
from core.jobs.job import CANCELLED
from core.jobs.lease import holder_words, try_lease
from core.jobs.run import JobRun
from core.jobs.stop import Stop
from core.jobs.store import JobStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from core.jobs.lease import Lease
    from core.jobs.log import Event
    from core.jobs.run import Outcome
    from core.paths import Paths

_PULSE = 0.25  # seconds between two looks at the output
_ROW = 1.0  # least seconds between two writes of the row
_SIGN_OF_LIFE = 15.0  # most seconds between them
_TURN = 0.25  # seconds between two looks at the lease
_CANCELLED: Event = {"type": "failed", "error": CANCELLED}


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a work that was asked to end may take."""

    to_hear: float = 60.0
    """Seconds until it says its next word; then it is interrupted wherever it is."""
    to_end: float = 300.0
    """Seconds after those, until its process ends whatever it does."""


def run_job(
    job_id: str,
    work: Callable[[JobRun], Outcome],
    *,
    paths: Paths,
    environ: Mapping[str, str],
    patience: Patience | None = None,
) -> int:
    """Do a job's work in this process, which was started for it, and return its exit code.

    Whatever becomes of the work, the job's row and log tell it. For the main thread.

    Args:
        job_id: a whole id.
        work: does it; what it raises is the job's error.
        paths: our folders.
        environ: the variables of the process.
        patience: how long it may take to end when it is asked to.

    Raises:
        NotFound: there is no such job.
        AlreadyRunning: it is over, or another process does it.
        MlxbunError: the list of jobs cannot be written.
    """
    stop, store = Stop(), JobStore(paths.jobs_folder)
    _speak_by_lines()
    with stop.on_signals(), ExitStack() as turn:
        run = JobRun(store, job_id, stop=stop, paths=paths, environ=environ)
        with _Pulse(run, stop, patience or Patience()):
            ending = _ending(run, stop, work, turn)
        run.end(ending)
        return 0 if ending["type"] == "done" else 1


def _ending(run: JobRun, stop: Stop, work: Callable[[JobRun], Outcome], turn: ExitStack) -> Event:
    """Do the work in its turn, which lasts until `turn` ends, and return the last event."""
    try:
        if run.job.accelerator:
            turn.callback(_wait_for_turn(run, stop).release)
        run.begin()
        with stop.interrupting():
            outcome = work(run)
    except KeyboardInterrupt:
        return _CANCELLED
    except MlxbunError as error:
        return _failed(in_one_line(error))
    except SystemExit as end:
        return _failed(f"The work ended its process with {end.code!r} before it was done.")
    except BaseException as defect:
        run.take_traceback(traceback.format_exception(defect))
        return _failed(_sentence(defect))
    if stop.raised:  # it let nothing pass, but it was told
        return _CANCELLED
    summary = dict(outcome.summary)
    return {"type": "done", "output_dir": outcome.output_dir, "summary": summary}


def _wait_for_turn(run: JobRun, stop: Stop) -> Lease:
    """Return the lease, once no older job waits and nobody holds it.

    Raises:
        Cancelled: the job is to end.
        OSError: the lease's file cannot be made.
    """
    store, path = JobStore(run.paths.jobs_folder), run.paths.lease_file
    while True:
        stop.check()
        first = None
        with suppress(MlxbunError):  # the list cannot be read: then whoever is quickest
            first = store.first_in_line()
        if first is None or first.id == run.job.id:
            what = f"job {run.job.id} ({run.job.kind})"
            if (lease := try_lease(path, what=what)) is not None:
                return lease
            run.wait_for(holder_words(path))
        else:
            run.wait_for(f"job {first.id} ({first.kind}), which came before")
        time.sleep(_TURN)


class _Pulse:
    """The thread beside the work, for as long as a block runs."""

    def __init__(self, run: JobRun, stop: Stop, patience: Patience) -> None:
        self._run = run
        self._stop = stop
        self._patience = patience
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="mlxbun-job", daemon=True)
        self._asked_at: float | None = None
        self._interrupted = False

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        kept = time.monotonic()
        while not self._over.wait(_PULSE):
            self._run.take_output()
            now = time.monotonic()
            if now - kept >= (_ROW if self._run.has_news else _SIGN_OF_LIFE):
                self._run.keep()
                kept = now
            self._see_to_the_end(now)

    def _see_to_the_end(self, now: float) -> None:
        """Interrupt a work that does not hear that it is to end, and at last its process."""
        if not self._stop.asked:
            return
        self._asked_at = self._asked_at or now
        waited = now - self._asked_at
        if waited > self._patience.to_hear and not (self._stop.heard or self._interrupted):
            self._interrupted = True
            os.kill(os.getpid(), signal.SIGTERM)
        if waited > self._patience.to_hear + self._patience.to_end:
            self._run.end(_CANCELLED)
            os._exit(1)


def _failed(error: str) -> Event:
    return {"type": "failed", "error": error}


def _sentence(defect: BaseException) -> str:
    if isinstance(defect, OSError) and defect.strerror:
        where = f"{defect.filename}: " if defect.filename else ""
        return f"{where}{defect.strerror}."
    told = str(defect).strip().partition("\n")[0]
    return f"internal error: {type(defect).__name__}: {told}"


def _speak_by_lines() -> None:
    """Let what is printed be in the output at once; into a file Python would collect it."""
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(line_buffering=True)
