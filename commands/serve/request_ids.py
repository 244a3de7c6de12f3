"""`x-request-id` on every answer. Knows ASGI, but no routes."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from litestar.types import Message, Scope

HEADER = "x-request-id"

_KEY = "mlxbun_request_id"
# Ids that a client may choose: short enough for any log, without line breaks.
_OURS_TO_ECHO = re.compile(rb"[!-~]{1,128}")


async def add_request_id(message: Message, scope: Scope) -> None:
    """Put the request's id into the head of its answer. Litestar's `before_send`."""
    if message["type"] == "http.response.start":
        name = HEADER.encode()
        others = [pair for pair in message.get("headers", ()) if pair[0].lower() != name]
        message["headers"] = [*others, (name, request_id(scope).encode())]


def request_id(scope: Scope) -> str:
    """Return the client's id for a request, or a new one if it has none that can be echoed."""
    state: dict[str, Any] = scope["state"]
    if _KEY not in state:
        state[_KEY] = _sent(scope) or new_request_id()
    return str(state[_KEY])


def new_request_id() -> str:
    """Return an id that no other request has."""
    return f"req_{uuid.uuid4().hex}"


def _sent(scope: Scope) -> str | None:
    sent = [value for name, value in scope["headers"] if name == HEADER.encode()]
    if len(sent) != 1 or not _OURS_TO_ECHO.fullmatch(sent[0]):
        return None
    return sent[0].decode()
