"""What all routes under `/api` share: who may use them, what they read, and how they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Request, Response, Router
from litestar.exceptions import HTTPException, PermissionDeniedException

from commands.serve.failures import api_handlers
from commands.serve.routes.body import read_body
from commands.serve.visitors import Visit, refusal
from commands.serve.wire.api import error_body, fields_of, problem_body

if TYPE_CHECKING:
    from collections.abc import Sequence

    from litestar.connection import ASGIConnection
    from litestar.handlers import BaseRouteHandler
    from litestar.types import ControllerRouterHandler

    from core.errors import MlxbunError

# Longer than anything that is asked for here.
_BODY_LIMIT = 1_000_000


def api_router(handlers: Sequence[ControllerRouterHandler]) -> Router:
    """Return the routes for whoever sits at this machine, with the errors that they know."""
    return Router(
        path="/",
        route_handlers=handlers,
        guards=[_only_from_here],
        exception_handlers=api_handlers(),
    )


async def read_fields(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """Return the fields of a body; none, where it is no JSON object.

    Raises:
        HTTPException: 415, it does not say that it is JSON; 413, it is too long.
        ClientGone: the client hung up.
    """
    body = await read_body(request, limit=_BODY_LIMIT)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # A page of another site can send a form or a text to anybody, but never JSON unasked.
    if body and kind != "application/json":
        raise HTTPException(
            status_code=415, detail="Send the body as JSON, with content-type: application/json."
        )
    return fields_of(body)


def as_json(value: msgspec.Struct) -> Response[bytes]:
    """Return a body with status 200."""
    return Response(
        msgspec.json.encode(value),
        media_type="application/json",
        headers={"cache-control": "no-store"},
    )


def problem(message: str, status: int) -> Response[bytes]:
    """Return a refusal in the words that clients know."""
    return Response(problem_body(message), status_code=status, media_type="application/json")


def refused(error: MlxbunError, status: int) -> Response[bytes]:
    """Return a refusal in the words of an error, with a status of the route's own."""
    return Response(error_body(error), status_code=status, media_type="application/json")


def _only_from_here(
    connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler
) -> None:
    """Let a visitor in who sits at this machine.

    Raises:
        PermissionDeniedException: they do not, or a page of another site speaks for them.
    """
    scope = connection.scope
    client, server = scope.get("client"), scope.get("server")
    visit = Visit(
        client=client[0] if client else None,
        server=server[0] if server else None,
        headers=[
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
        ],
    )
    why = refusal(visit, host=connection.app.state.serving.settings.host)
    if why is not None:
        raise PermissionDeniedException(detail=why)
