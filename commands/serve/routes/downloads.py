"""`GET /downloads` and `POST /api/hub/download`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Request, Response, get, post

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json, problem, read_fields
from commands.serve.wire.api import ApiProblem, text_in
from commands.serve.wire.downloads import DownloadList, DownloadStart, DownloadStarted, download_row
from core.download.ledger import Ledger
from core.download.names import parse_name
from core.errors import AlreadyRunning

if TYPE_CHECKING:
    from commands.serve.serving import Serving

_SHOWN = 5


@get("/downloads", opt=documented(answer=DownloadList))
async def list_downloads(request: Request[Any, Any, Any]) -> Response[bytes]:
    """List the last downloads of every mlxbun on this machine."""
    serving: Serving = request.app.state.serving
    ledger = Ledger(serving.options.paths.downloads_file)
    work = serving.disk.run(ledger.recent, _SHOWN)
    newest_first = await serving.options.drain.unless_given_up(work)
    return as_json(DownloadList(downloads=[download_row(each) for each in reversed(newest_first)]))


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
    options = serving.options
    name = parse_name(repo)
    work = serving.network.run(
        options.downloads.start, name, paths=options.paths, environ=options.environ
    )
    try:
        await options.drain.unless_given_up(work)
    except AlreadyRunning:
        return problem(f"a download for {name.repo_id} is already in progress", 409)
    return as_json(DownloadStarted(repo=repo))
