"""`GET /downloads` and `POST /api/hub/download`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Request, Response, get, post

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json, problem, read_fields
from commands.serve.wire.api import ApiProblem, text_in
from commands.serve.wire.downloads import DownloadList, DownloadStart, DownloadStarted, download_row
from core.errors import AlreadyRunning
from core.registry.names import plain_name

if TYPE_CHECKING:
    from pathlib import Path

    from commands.serve.serving import Serving
    from core.download.ledger import DownloadRecord

_SHOWN = 5


@get("/downloads", opt=documented(answer=DownloadList))
async def list_downloads(request: Request[Any, Any, Any]) -> Response[bytes]:
    """List the last downloads of every mlxbun on this machine."""
    serving: Serving = request.app.state.serving
    work = serving.disk.run(_last, serving.options.paths.downloads_file)
    last = await serving.options.drain.unless_given_up(work)
    return as_json(DownloadList(downloads=[download_row(record) for record in last]))


@post(
    "/api/hub/download",
    status_code=200,
    opt=documented(body=DownloadStart, answer=DownloadStarted, error=ApiProblem),
)
async def start_download(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Start to download a repository; `GET /downloads` tells how it goes."""
    serving: Serving = request.app.state.serving
    repo = text_in(await read_fields(request), "repo")
    if not repo:
        return problem('missing "repo"', 400)
    repo, options = plain_name(repo), serving.options
    work = serving.network.run(
        options.downloads.start, repo, paths=options.paths, environ=options.environ
    )
    try:
        await options.drain.unless_given_up(work)
    except AlreadyRunning:
        name = repo.partition("@")[0]
        return problem(f"a download for {name} is already in progress", 409)
    return as_json(DownloadStarted(repo=repo))


def _last(ledger: Path) -> list[DownloadRecord]:
    """Return the last downloads, in the order of their start."""
    from core.download.ledger import Ledger

    return list(reversed(Ledger(ledger).recent(_SHOWN)))
