"""`/api/settings/hf-token`: whether there is a token, keeping one, removing ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Request, Response, delete, get, post

from commands.serve.openapi import documented
from commands.serve.routes.api import as_json, problem, read_fields
from commands.serve.wire.api import ApiProblem, Done, text_in
from commands.serve.wire.token import TokenEntry, TokenState
from core.hf_token import delete_token, find_token, save_token

if TYPE_CHECKING:
    from commands.serve.serving import ServeOptions, Serving


@get("/api/settings/hf-token", opt=documented(answer=TokenState, error=ApiProblem))
async def show_token(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Tell whether there is a token for the Hub."""
    serving: Serving = request.app.state.serving
    return as_json(await serving.disk.run(_state, serving.options))


@post(
    "/api/settings/hf-token",
    status_code=200,
    opt=documented(body=TokenEntry, answer=Done, error=ApiProblem),
)
async def keep_token(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Keep a token in our own file, readable by its owner alone."""
    serving: Serving = request.app.state.serving
    token = text_in(await read_fields(request), "token")
    if not token:
        return problem("token required", 400)
    await serving.disk.run(save_token, serving.options.paths, token)
    return as_json(Done())


@delete(
    "/api/settings/hf-token",
    status_code=200,
    opt=documented(answer=TokenState, error=ApiProblem),
)
async def remove_token(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Remove our own file; a token of HF_TOKEN or of `hf auth login` stays."""
    serving: Serving = request.app.state.serving
    await serving.disk.run(delete_token, serving.options.paths)
    return as_json(await serving.disk.run(_state, serving.options))


def _state(options: ServeOptions) -> TokenState:
    return TokenState(has_token=find_token(options.paths, options.environ) is not None)
