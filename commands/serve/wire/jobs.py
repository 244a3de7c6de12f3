"""Jobs: their rows, and their events as server-sent events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from commands.serve.wire.api import clean
from core.jobs.log import encode_event

if TYPE_CHECKING:
    from core.jobs.job import Job
    from core.jobs.log import Event

RETRY = b"retry: 1500\n\n"
END = b"event: end\ndata: {}\n\n"
NOT_FOUND = "job not found"


class JobRow(Struct, kw_only=True):
    """One job of any mlxbun on this machine."""

    id: str
    kind: Literal["quantize", "finetune", "dataset"]
    status: Literal["queued", "running", "done", "failed", "zombie"]
    config_json: Annotated[str, Meta(description="the body that asked for it")]
    progress: Annotated[float, Meta(description="0 to 1")]
    message: Annotated[str | None, Meta(description="what it does now, or waits for")]
    log_path: str
    output_path: str | None
    error: Annotated[str | None, Meta(description="`cancelled`: it was asked to end")]
    started_at: Annotated[str, Meta(description="ISO 8601, in UTC")]
    ended_at: str | None


class JobList(Struct, kw_only=True):
    """The body of `GET /api/jobs`, the newest first."""

    ok: Literal[True] = True
    jobs: list[JobRow]


class JobFound(Struct, kw_only=True):
    """The body of `GET /api/jobs/{job_id}`."""

    ok: Literal[True] = True
    job: JobRow


class JobEvent(Struct, kw_only=True):
    """One event of `GET /api/jobs/{job_id}/stream`; a metric may have further figures."""

    type: Literal["started", "log", "stage", "metric", "done", "failed"]
    ts: Annotated[int | UnsetType, Meta(description="milliseconds since 1970")] = UNSET
    line: str | UnsetType = UNSET
    stage: str | UnsetType = UNSET
    progress: float | UnsetType = UNSET
    message: str | UnsetType = UNSET
    kind: Literal["train", "val"] | UnsetType = UNSET
    step: int | UnsetType = UNSET
    loss: float | UnsetType | None = UNSET
    output_dir: str | UnsetType = UNSET
    summary: dict[str, Any] | UnsetType = UNSET
    error: str | UnsetType = UNSET


def job_row(job: Job) -> JobRow:
    """Return the row of a job."""
    return JobRow(
        id=job.id,
        kind=job.kind,
        status=job.status,
        config_json=job.config_json,
        progress=job.progress,
        message=_cleaned(job.message),
        log_path=clean(str(job.log_path)),
        output_path=_cleaned(job.output_path),
        error=_cleaned(job.error),
        started_at=job.started_at,
        ended_at=job.ended_at,
    )


def event_frame(event: Event) -> bytes:
    """Return the server-sent event of a job's event."""
    return b"data: " + encode_event(event) + b"\n\n"


def unknown_frame(now: float) -> bytes:
    """Return the only event of a job that is not there.

    Args:
        now: Unix seconds.
    """
    return event_frame({"type": "failed", "error": NOT_FOUND, "ts": int(now * 1000)})


def _cleaned(text: str | None) -> str | None:
    return None if text is None else clean(text)
