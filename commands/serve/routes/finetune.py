"""`POST /api/finetune/submit` and `/inspect-dataset`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from litestar import Request, Response, post

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json, problem, read_fields
from commands.serve.wire.api import ApiProblem, text_in
from commands.serve.wire.finetune import (
    MISSING,
    DatasetFacts,
    DatasetQuestion,
    FinetuneStarted,
    FinetuneSubmit,
    facts_body,
    no_facts_body,
    submitted,
)
from core.errors import MlxbunError
from core.jobs.launch import start_job
from core.jobs.store import JobStore
from core.paths import expanded

if TYPE_CHECKING:
    from commands.serve.serving import ServeOptions, Serving
    from core.jobs.job import Job


@post(
    "/api/finetune/submit",
    status_code=200,
    opt=documented(body=FinetuneSubmit, answer=FinetuneStarted, error=ApiProblem),
)
async def submit(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Start a fine-tuning as a job; `GET /api/jobs/{job_id}/stream` tells how it goes."""
    serving: Serving = request.app.state.serving
    options = serving.options
    fields = await read_fields(request)
    config = submitted(fields, options.paths.adapters_folder, serving.moments.next())
    if config is None:
        return problem(MISSING, 400)
    job = await options.drain.unless_given_up(serving.jobs.run(_start, options, config))
    return as_json(FinetuneStarted(job_id=job.id, adapter_path=str(config["adapter_path"])))


@post(
    "/api/finetune/inspect-dataset",
    status_code=200,
    opt=documented(body=DatasetQuestion, answer=DatasetFacts, error=ApiProblem),
)
async def inspect_dataset(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Tell how many rows a data set has, and of which format."""
    serving: Serving = request.app.state.serving
    path = text_in(await read_fields(request), "path")
    if not path:
        return as_json(no_facts_body("path required"))
    work = serving.disk.run(_inspect, path)
    return as_json(await serving.options.drain.unless_given_up(work))


def _start(options: ServeOptions, config: dict[str, Any]) -> Job:
    return start_job(
        JobStore(options.paths.jobs_folder),
        "finetune",
        config,
        command=options.finetune_command,
        environ=options.environ,
        check=partial(options.finetune_check, config, options.paths, options.environ),
    )


def _inspect(path: str) -> DatasetFacts:
    from core.train.data import inspect_dataset

    try:
        return facts_body(inspect_dataset(expanded(path)))
    except MlxbunError as problem:
        return no_facts_body(problem.message)
