"""Jobs and their events, for people and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from core.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from core.jobs.job import Job
    from core.jobs.log import Event

COLUMNS = {
    "id": "JOB",
    "kind": "KIND",
    "status": "STATUS",
    "progress": "DONE",
    "started": "STARTED (UTC)",
    "told": "",
}
_KNOWN = ("type", "kind", "step", "steps", "loss")


def job_row(job: Job) -> dict[str, Any]:
    """Return a job as a row of a table."""
    return {
        "id": job.id,
        "kind": job.kind,
        "status": job.status,
        "progress": f"{job.progress:.0%}",
        "started": _minute(job.started_at),
        "told": job.error or job.message or job.output_path or "",
    }


def job_record(job: Job) -> dict[str, Any]:
    """Return a job as lines."""
    return {
        "job": job.id,
        "kind": job.kind,
        "status": job.status,
        "done": f"{job.progress:.0%}",
        "message": job.message,
        "error": job.error,
        "output": job.output_path,
        "started": job.started_at,
        "ended": job.ended_at,
        "process": None if job.is_over else job.owner.pid,
        "log": job.log_path,
        "asked for": job.config,
    }


def job_as_json(job: Job) -> dict[str, Any]:
    """Return a job as `GET /api/jobs/<id>` has it, with its process."""
    return {
        "id": job.id,
        "kind": job.kind,
        "status": job.status,
        "config_json": job.config_json,
        "progress": job.progress,
        "message": job.message,
        "log_path": job.log_path,
        "output_path": job.output_path,
        "error": job.error,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "pid": None if job.is_over else job.owner.pid,
    }


def event_words(event: Event) -> str:
    """Return an event as a line; empty: it is of a type that is not known here."""
    match event["type"]:
        case "started":
            told = f"started {_moment(event.get('ts'))}"
        case "log":
            told = str(event.get("line"))
        case "stage":
            told = f"{_share(event.get('progress'))}{event.get('message') or event.get('stage')}"
        case "metric":
            told = _metric(event)
        case "done":
            told = f"done {_moment(event.get('ts'))}: {event.get('output_dir')}"
        case "failed":
            told = f"failed {_moment(event.get('ts'))}: {event.get('error')}"
        case _:
            return ""
    # What a program printed must not move the cursor.
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in told)


def _metric(event: Event) -> str:
    more = [
        _figure(name, value)
        for name, value in event.items()
        if name not in _KNOWN and value is not None
    ]
    whole = f" of {event['steps']}" if "steps" in event else ""
    loss = event.get("loss")
    told = "loss is not a number" if loss is None else _figure("loss", loss)
    return ", ".join([f"{event.get('kind')} step {event.get('step')}{whole}: {told}", *more])


def _figure(name: str, value: Any) -> str:
    """Return a figure with its name, which tells its unit."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return f"{name} {value}"
    if name.endswith("_bytes"):
        return f"{name.removesuffix('_bytes')} {format_bytes(value)}"
    if name == "seconds_left":
        return f"{format_seconds(value)} left"
    return f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"


def _share(progress: Any) -> str:
    return f"{progress:.0%} " if isinstance(progress, int | float) else ""


def _moment(milliseconds: Any) -> str:
    if not isinstance(milliseconds, int):
        return ""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # no time that there is
        return ""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")
