"""`GET /api/hub/search` and `POST /api/hub/serve`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from litestar import Request, Response, get, post

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json, problem, read_fields
from commands.serve.wire.api import ApiProblem, clean, text_in
from commands.serve.wire.hub import (
    HubSearch,
    RestartRequired,
    ServeRequest,
    restart_body,
    search_body,
)
from core.errors import DownloadFailed, EngineStopped, MlxbunError

if TYPE_CHECKING:
    from commands.serve.serving import Serving
    from core.download.search import FoundModel

_LONGEST_QUERY = 256
# The Hub gets ten seconds; what cannot be bounded there, as a name that is looked up, ends here.
_PATIENCE = 12.0


@get("/api/hub/search", opt=documented(answer=HubSearch, error=ApiProblem, query=("q!",)))
async def search(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Look for models on the Hub; where it cannot be asked, say so."""
    query = request.query_params.get("q", "").strip()
    if not query:
        return problem("missing ?q=", 400)
    if len(query) > _LONGEST_QUERY:
        return problem(f"?q= must have {_LONGEST_QUERY} characters at most", 400)
    try:
        return as_json(search_body(await _found(request.app.state.serving, clean(query))))
    except EngineStopped:
        raise
    except MlxbunError as why:
        told = f"{why.message} {why.hint}" if why.hint else why.message
        return as_json(HubSearch(offline=True, error=clean(told), results=[]))


@post(
    "/api/hub/serve",
    status_code=200,
    opt=documented(body=ServeRequest, answer=RestartRequired, error=ApiProblem),
)
async def serve_another(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Name the command that serves another model: this server keeps the one that it has."""
    model = text_in(await read_fields(request), "model")
    return as_json(restart_body(clean(model))) if model else problem('missing "model"', 400)


async def _found(serving: Serving, query: str) -> list[FoundModel]:
    work = serving.network.run(_ask, serving, query)
    try:
        async with asyncio.timeout(_PATIENCE):
            return await serving.options.drain.unless_given_up(work)
    except TimeoutError:
        raise DownloadFailed("The Hugging Face Hub does not answer.") from None


def _ask(serving: Serving, query: str) -> list[FoundModel]:
    from core.download.search import search_models

    return search_models(query, paths=serving.options.paths, environ=serving.options.environ)
