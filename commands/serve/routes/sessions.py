"""`GET /api/sessions/search` and `GET /api/sessions/export`: conversations of `mlxbun chat`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Request, Response, get

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json, problem
from commands.serve.wire.api import ApiProblem, clean
from commands.serve.wire.sessions import (
    NO_PATH,
    NO_QUERY,
    OUTSIDE,
    SessionExport,
    SessionSearch,
    search_body,
)
from core.errors import NotFound
from core.sessions.search import search_sessions, session_file
from core.sessions.store import read_lines

if TYPE_CHECKING:
    from pathlib import Path

    from commands.serve.serving import Serving

_LONGEST_QUERY = 256


@get("/api/sessions/search", opt=documented(answer=SessionSearch, error=ApiProblem, query=("q!",)))
async def search(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Search for words in the stored conversations."""
    serving: Serving = request.app.state.serving
    query = request.query_params.get("q", "")
    if not query.strip():
        return problem(NO_QUERY, 400)
    if len(query) > _LONGEST_QUERY:
        return problem(f"q must have {_LONGEST_QUERY} characters at most", 400)
    work = serving.disk.run(search_sessions, serving.options.paths.sessions_folder, query)
    return as_json(search_body(await serving.options.drain.unless_given_up(work)))


@get(
    "/api/sessions/export",
    opt=documented(answer=SessionExport, error=ApiProblem, query=("path!",)),
)
async def export(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return a conversation as stored on disk."""
    serving: Serving = request.app.state.serving
    path = request.query_params.get("path", "")
    if not path:
        return problem(NO_PATH, 400)
    work = serving.disk.run(_entries, serving.options.paths.sessions_folder, path)
    try:
        entries = await serving.options.drain.unless_given_up(work)
    except NotFound as why:
        return problem(why.message, 404)
    if entries is None:
        return problem(OUTSIDE, 403)
    return as_json(SessionExport(path=clean(path), entries=entries))


def _entries(folder: Path, path: str) -> list[msgspec.Raw] | None:
    """Return the lines of a session file; None: the path leads out of the folder."""
    file = session_file(folder, path)
    return None if file is None else [msgspec.Raw(line) for line, _ in read_lines(file)]
