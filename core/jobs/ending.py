"""How a job has ended whose process is gone, as its log and its last words tell it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from core.jobs.log import LogWriter, last_event
from core.jobs.output import read_output

if TYPE_CHECKING:
    from core.errors import MlxbunError
    from core.jobs.job import Job
    from core.jobs.log import Event

GONE = (
    "Its process ended without a word: it was killed, it crashed, or the disk had no room for its "
    "last words."
)
_WORDS = 300  # characters of the last line that the row holds


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A job that is over, and what its log still lacks."""

    job: Job
    """As its row is to be."""
    last_words: tuple[str, ...] = ()
    """Lines of its raw output that are not in the log."""

    def write_last_words(self) -> None:
        """Put them into the log."""
        log = LogWriter(self.job.log_path)
        for line in self.last_words:
            log.write({"type": "log", "line": line})
        log.close()
        if not log.lost:
            self.job.output_file.unlink(missing_ok=True)


def settled(job: Job) -> Ended:
    """Return how a job has ended, now that its process is gone.

    Args:
        job: as its row has it, queued or running.
    """
    last = last_event(job.log_path)
    job = replace(job, ended_at=iso(job.seen_at))
    if last is not None and last["type"] in ("done", "failed"):
        return Ended(job=ended_by(job, last))
    lines = _rest_of_output(job)
    error = f"{GONE} Its last words: {lines[-1][:_WORDS]}" if lines else GONE
    return Ended(job=replace(job, status="zombie", error=error), last_words=tuple(lines))


def ended_by(job: Job, event: Event) -> Job:
    """Return a job as its last event, `done` or `failed`, leaves it."""
    if isinstance(event.get("ts"), int):
        job = replace(job, ended_at=iso(event["ts"] / 1000))
    if event["type"] == "done":
        made = event.get("output_dir")
        output_path = made if isinstance(made, str) else None
        return replace(job, status="done", progress=1.0, output_path=output_path, error=None)
    return replace(job, status="failed", error=str(event.get("error")))


def in_one_line(error: MlxbunError) -> str:
    """Return what a job that failed with an error says of it."""
    return f"{error.message} {error.hint}" if error.hint else error.message


def iso(now: float) -> str:
    """Return Unix seconds as a row has them."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")


def _rest_of_output(job: Job) -> list[str]:
    lines: list[str] = []
    offset = job.output_read
    while True:
        more, behind = read_output(job.output_file, offset, whole=True)
        lines += more
        if behind == offset:
            return lines
        offset = behind
