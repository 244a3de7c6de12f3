"""`POST /api/{quantize,finetune,dataset}/push`: what was made here, to the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from litestar import Request, Response, post

from commands.serve.failures import ClientGone
from commands.serve.openapi import documented
from commands.serve.racing import unless
from commands.serve.routes.api import as_json, read_fields, refused
from commands.serve.sse import until_disconnect
from commands.serve.wire.api import ApiProblem
from commands.serve.wire.push import Order, Pushed, PushOrder, order_of
from core.errors import EngineStopped, MlxbunError, NotFound
from core.jobs.store import JobStore
from core.paths import expanded

if TYPE_CHECKING:
    from commands.serve.serving import ServeOptions, Serving
    from core.upload.target import RepoType


@post(
    ["/api/quantize/push", "/api/finetune/push"],
    status_code=200,
    opt=documented(body=PushOrder, answer=Pushed, error=ApiProblem),
)
async def push_model(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Upload a model or an adapter: a job's output, or a folder."""
    return await _push(request, "model")


@post(
    "/api/dataset/push",
    status_code=200,
    opt=documented(body=PushOrder, answer=Pushed, error=ApiProblem),
)
async def push_data(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Upload a data set: a folder, or a file of data."""
    return await _push(request, "dataset")


async def _push(request: Request[Any, Any, Any], repo_type: RepoType) -> Response[bytes]:
    serving: Serving = request.app.state.serving
    options, cancel = serving.options, Event()
    order = order_of(await read_fields(request))
    work = serving.network.run(_upload, order, repo_type, options, cancel)
    # Whoever hangs up ends the upload: what was sent is kept, and the same order sends the rest.
    watched = unless(until_disconnect(request.receive), ClientGone(), work)
    try:
        url = await options.drain.unless_given_up(watched)
    except EngineStopped:
        raise
    except MlxbunError as wrong:
        return refused(wrong, 400)
    finally:
        cancel.set()
    return as_json(Pushed(url=url))


def _upload(order: Order, repo_type: RepoType, options: ServeOptions, cancel: Event) -> str:
    """Upload what was ordered and return where a person finds it."""
    return options.uploads.run(
        order.repo_id,
        lambda: _source(order, options),
        repo_type=repo_type,
        private=order.private,
        paths=options.paths,
        environ=options.environ,
        cancel=cancel,
    )


def _source(order: Order, options: ServeOptions) -> Path:
    """Return the folder that is meant.

    Raises:
        NotFound: there is no such job, or it has made nothing.
    """
    if order.source_path:
        return expanded(order.source_path)
    job = JobStore(options.paths.jobs_folder).get(order.job_id)
    if job is None:
        raise NotFound(f"There is no job {order.job_id}.")
    if job.output_path is None:
        raise NotFound(f"Job {job.id} has no output: it is {job.status}.")
    return Path(job.output_path)
