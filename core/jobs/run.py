"""A job while it runs, as its work sees it: what was asked for, and how it tells where it stands.

Events go into the log at once; the row follows (`core.jobs.runner`).
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from core.errors import MlxbunError
from core.jobs.ending import ended_by, iso
from core.jobs.log import TEXT_LIMIT, LogWriter
from core.jobs.output import read_output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.jobs.job import Job
    from core.jobs.log import Event
    from core.jobs.stop import Stop
    from core.jobs.store import JobStore
    from core.paths import Paths

_FAREWELL = 10.0  # seconds for a full disk or a busy list to take how the job has ended
_PAUSE = 0.25


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the work has made."""

    output_dir: str
    """Where it lies."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """What is worth knowing of it, as JSON has it."""


class JobRun:
    """A job of this process. Its words may come from any thread.

    Attributes:
        paths: our folders.
        environ: the variables of the process.
    """

    def __init__(
        self,
        store: JobStore,
        job_id: str,
        *,
        stop: Stop,
        paths: Paths,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make this process the job's own.

        Raises:
            NotFound: there is none of that id.
            AlreadyRunning: it is over, or another process does it.
            MlxbunError: the list of jobs cannot be written.
        """
        self.paths = paths
        self.environ = environ
        self._clock = clock
        self._store = store
        self._stop = stop
        self._lock = threading.RLock()
        self._job = self._saved = store.claim(job_id)
        self._log = LogWriter(self._job.log_path)
        if self._job.cancel_asked:
            stop.ask()

    @property
    def job(self) -> Job:
        """The job as it stands."""
        return self._job

    @property
    def config(self) -> dict[str, Any]:
        """What was asked for."""
        return self._job.config

    @property
    def is_cancelled(self) -> bool:
        """Whether the job is to end: for work that asks between two steps.

        Such a work raises `Cancelled` by itself, once it has kept what it has.
        """
        if self._stop.asked:
            self._stop.heard = True
        return self._stop.asked

    def tell(self, event: Event, *, progress: float | None = None) -> None:
        """Put an event into the log, and what it says of progress into the row. Never raises.

        Args:
            event: with its `type`: `log`, `stage` or `metric`.
            progress: of all the work, 0 to 1; None: what a stage says, else as it was.
        """
        self._log.write(event)
        if event["type"] == "stage":
            progress = event.get("progress") if progress is None else progress
            self._set(message=event.get("message"))
        if progress is not None:
            self._set(progress=min(max(progress, 0.0), 1.0))

    def log(self, line: str) -> None:
        """Tell something, in one line.

        Raises:
            Cancelled: the job is to end; once.
        """
        self.tell({"type": "log", "line": line[:TEXT_LIMIT]})
        self.check()

    def stage(self, stage: str, progress: float, message: str) -> None:
        """Tell where the work stands.

        Args:
            stage: its name, one word.
            progress: of all the work, 0 to 1.
            message: the same for people, in a few words.

        Raises:
            Cancelled: the job is to end; once.
        """
        self.tell({"type": "stage", "stage": stage, "progress": progress, "message": message})
        self.check()

    def metric(
        self, kind: str, step: int, loss: float, *, progress: float | None = None, **more: Any
    ) -> None:
        """Tell a measured figure.

        Args:
            kind: `train` or `val`.
            step: at which step, from 1.
            loss: in nats a token.
            progress: of all the work, 0 to 1; None: as it was. It goes into the row alone.
            more: other figures by name, as JSON has them.

        Raises:
            Cancelled: the job is to end; once.
        """
        event = {"type": "metric", "kind": kind, "step": step, "loss": loss, **more}
        self.tell(event, progress=progress)
        self.check()

    def check(self) -> None:
        """Do nothing, unless the job is to end: for work that has nothing to tell for a while.

        Raises:
            Cancelled: the job is to end; once, so that the work can still tell what it keeps.
        """
        self._stop.check()

    # For the runner.

    def wait_for(self, whom: str) -> None:
        """Tell what the job waits for."""
        if self._job.message != (message := f"Waits for {whom}."):
            self._set(message=message)

    def begin(self) -> None:
        """Note that the work begins."""
        now = self._clock()
        self._set(status="running", started_at=iso(now), message=None)
        self.keep()
        self._log.write({"type": "started", "ts": int(now * 1000)})

    def end(self, event: Event) -> bool:
        """Note how the work has ended, first in the log, and return whether both have taken it.

        Args:
            event: `done` or `failed`; the time is added.
        """
        self.take_output(whole=True)
        event = {**event, "ts": int(self._clock() * 1000)}
        with self._lock:
            self._job = replace(ended_by(self._job, event), message=None)
        deadline = time.monotonic() + _FAREWELL
        logged = False
        while not ((logged := logged or self._log_end(event)) and self.keep()):
            if time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE)
        return True

    def _log_end(self, event: Event) -> bool:
        """Write the last event and return whether it is there; then no output is left to take."""
        if not self._log.write(event):
            return False
        self._log.close()
        self._job.output_file.unlink(missing_ok=True)
        return True

    @property
    def has_news(self) -> bool:
        """Whether the row is behind."""
        return self._job is not self._saved

    def keep(self) -> bool:
        """Write the row, and return whether the list has taken it."""
        with self._lock:
            job = self._job
            try:
                cancel_asked = self._store.save(job)
            except MlxbunError:
                return False  # a full disk, for example: the next time, then
            self._saved = job
        if cancel_asked:
            self._stop.ask()
        return True

    def take_output(self, *, whole: bool = False) -> None:
        """Take into the log what the process has written to stdout and stderr.

        Args:
            whole: nothing comes any more.
        """
        with self._lock:
            if whole:
                _flush()
            while True:
                offset = self._job.output_read
                lines, behind = read_output(self._job.output_file, offset, whole=whole)
                for line in lines:
                    self._log.write({"type": "log", "line": line})
                if behind == offset:
                    return
                self._set(output_read=behind)

    def take_traceback(self, lines: list[str]) -> None:
        """Put a traceback into the log."""
        for line in "".join(lines).splitlines():
            self._log.write({"type": "log", "line": line[:TEXT_LIMIT]})

    def _set(self, **changes: Any) -> None:
        with self._lock:
            self._job = replace(self._job, **changes)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
