"""`POST /api/quantize/submit` and `/inspect`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Request, Response, post

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json, problem, read_fields, refused
from commands.serve.wire.api import ApiProblem, text_in
from commands.serve.wire.quantize import (
    MISSING,
    QuantizeFacts,
    QuantizeQuestion,
    QuantizeStarted,
    QuantizeSubmit,
    facts_body,
    no_facts_body,
    submitted,
)
from core.errors import EngineStopped, MlxbunError
from core.jobs.launch import start_job
from core.jobs.store import JobStore

if TYPE_CHECKING:
    from commands.serve.serving import ServeOptions, Serving
    from core.jobs.job import Job
    from core.quantize.runner import Checked


@post(
    "/api/quantize/submit",
    status_code=200,
    opt=documented(body=QuantizeSubmit, answer=QuantizeStarted, error=ApiProblem),
)
async def submit(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Start a quantization as a job; `GET /api/jobs/{job_id}/stream` reports its progress."""
    serving: Serving = request.app.state.serving
    options = serving.options
    fields = submitted(await read_fields(request))
    if fields is None:
        return problem(MISSING, 400)
    try:
        work = serving.jobs.run(options.quantize_check, fields, options)
        checked = await options.drain.unless_given_up(work)
    except EngineStopped:
        raise
    except MlxbunError as wrong:
        return refused(wrong, 400)
    job = await options.drain.unless_given_up(serving.jobs.run(_start, options, checked))
    return as_json(QuantizeStarted(job_id=job.id, output_dir=checked.output_dir))


@post(
    "/api/quantize/inspect",
    status_code=200,
    opt=documented(body=QuantizeQuestion, answer=QuantizeFacts, error=ApiProblem),
)
async def inspect(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Tell whether a model on this disk can be quantized."""
    serving: Serving = request.app.state.serving
    model_id = text_in(await read_fields(request), "model_id")
    if not model_id:
        return as_json(no_facts_body("", MISSING))
    work = serving.disk.run(_inspect, serving, model_id)
    return as_json(await serving.options.drain.unless_given_up(work))


def _start(options: ServeOptions, checked: Checked) -> Job:
    return start_job(
        JobStore(options.paths.jobs_folder),
        "quantize",
        checked.config,
        command=options.quantize_command,
        environ=options.environ,
    )


def _inspect(serving: Serving, model_id: str) -> QuantizeFacts:
    from core.quantize.inspect import inspect_model

    try:
        return facts_body(
            inspect_model(model_id, paths=serving.options.paths, settings=serving.settings)
        )
    except MlxbunError as wrong:
        return no_facts_body(model_id, wrong.message)
