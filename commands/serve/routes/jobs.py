"""`GET /api/jobs`, one job, and its events as they come."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from litestar import Request, Response, get
from litestar.params import FromPath

from commands.serve.openapi import documented
from commands.serve.routes.answer import StreamedAnswer
from commands.serve.routes.api import as_json, problem
from commands.serve.sse import EventStream
from commands.serve.wire.api import ApiProblem
from commands.serve.wire.jobs import (
    END,
    NOT_FOUND,
    RETRY,
    JobEvent,
    JobFound,
    JobList,
    event_frame,
    job_row,
    unknown_frame,
)
from core.errors import MlxbunError
from core.jobs.store import JobStore
from core.jobs.tail import Tail

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from commands.serve.serving import Serving

_SHOWN = 50
_MOST = 1000
_POLL_SECONDS = 0.25


@get("/api/jobs", opt=documented(answer=JobList, error=ApiProblem, query=("limit", "kind")))
async def list_jobs(request: Request[Any, Any, Any]) -> Response[bytes]:
    """List the last jobs of every mlxbun on this machine."""
    serving: Serving = request.app.state.serving
    query = request.query_params
    work = serving.jobs.run(
        _store(serving).recent, kind=query.get("kind") or None, limit=_limit(query.get("limit"))
    )
    found = await serving.options.drain.unless_given_up(work)
    return as_json(JobList(jobs=[job_row(job) for job in found]))


@get("/api/jobs/{job_id:str}", opt=documented(answer=JobFound, error=ApiProblem))
async def find_job(request: Request[Any, Any, Any], job_id: FromPath[str]) -> Response[bytes]:
    """Tell where one job stands."""
    serving: Serving = request.app.state.serving
    work = serving.jobs.run(_store(serving).get, job_id)
    job = await serving.options.drain.unless_given_up(work)
    return problem(NOT_FOUND, 404) if job is None else as_json(JobFound(job=job_row(job)))


@get("/api/jobs/{job_id:str}/stream", opt=documented(event=JobEvent, error=ApiProblem))
async def stream_job(request: Request[Any, Any, Any], job_id: FromPath[str]) -> StreamedAnswer:
    """Send the events of a job, from the first to the last."""
    serving: Serving = request.app.state.serving
    stream = EventStream(
        _frames(serving, job_id),
        on_close=lambda: None,
        keep_alive=serving.options.keep_alive,
    )
    return StreamedAnswer(stream)


async def _frames(serving: Serving, job_id: str) -> AsyncGenerator[bytes, None]:
    """Yield what a client reads. Without an end where the server ends, so that it comes back."""
    yield RETRY
    try:
        store = _store(serving)
        job = await serving.jobs.run(store.get, job_id)
        if job is None:
            yield unknown_frame(time.time())
            yield END
            return
        tail = Tail(store, job)
        while not tail.over and not serving.options.drain.begun:
            events = await serving.jobs.run(tail.read)
            if events:
                yield b"".join(map(event_frame, events))
            elif not tail.over:
                await asyncio.sleep(_POLL_SECONDS)
    except MlxbunError:  # the list cannot be read now
        return
    if tail.over:
        yield END


def _store(serving: Serving) -> JobStore:
    return JobStore(serving.options.paths.jobs_folder)


def _limit(asked: str | None) -> int:
    """Return how many jobs to list; what is no number is passed over."""
    if asked is None or not asked.isascii() or not asked.isdigit():
        return _SHOWN
    return min(max(int(asked[:6]), 1), _MOST)
