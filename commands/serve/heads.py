"""`HEAD` wherever there is `GET`: the headers of the answer, without the work for its body.

Handlers that are marked as cheap (`documented(cheap=True)`) run; of the others only the guards do,
so that `HEAD` never starts a job, reads a disk or opens a stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar import Request, Response, head

from commands.serve.openapi import is_cheap, media_type_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from litestar.handlers import HTTPRouteHandler
    from litestar.types import Message, Scope


def with_heads(handlers: Sequence[HTTPRouteHandler]) -> list[HTTPRouteHandler]:
    """Return the handlers, and for each that answers GET another one that answers HEAD."""
    gets = [handler for handler in handlers if handler.http_methods == {"GET"}]
    return [*handlers, *map(_head_of, gets)]


async def drop_length(message: Message, scope: Scope) -> None:
    """Remove the length from a head whose body was not made. Litestar's `before_send`."""
    if scope.get("method") == "HEAD" and message["type"] == "http.response.start":
        headers = message.get("headers", ())
        message["headers"] = [pair for pair in headers if pair[0].lower() != b"content-length"]


def _head_of(handler: HTTPRouteHandler) -> HTTPRouteHandler:
    """Return the HEAD handler beside a GET handler, on the same paths."""

    async def run(request: Request[Any, Any, Any]) -> Response[None]:
        whole = await handler.fn(request)
        return Response(
            None,
            status_code=whole.status_code or 200,
            headers=whole.headers,
            media_type=whole.media_type,
        )

    async def empty() -> Response[None]:
        return Response(None, media_type=media_type_of(handler))

    return head(sorted(handler.paths))(run if is_cheap(handler) else empty)
