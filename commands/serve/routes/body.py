"""Reading a request's body, with a limit of our own that the client gets to hear of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from litestar.exceptions import HTTPException

from commands.serve.failures import ClientGone
from commands.serve.wire.openai.sentences import quoted
from core.units import format_bytes

if TYPE_CHECKING:
    from litestar import Request

BODY_LIMIT = 100_000_000
"""Bytes. Far above any context and the images of one request, far below what hurts a machine."""

# A body beyond the limit is read on to its end, else the client would see a reset instead of the
# answer; but nobody gets to send for ever.
_PATIENCE = 10 * BODY_LIMIT


async def read_body(request: Request[Any, Any, Any], *, limit: int = BODY_LIMIT) -> bytearray:
    """Return the body, whatever its content type says.

    Args:
        request: the client's.
        limit: the most bytes that it may have.

    Raises:
        HTTPException: 413, it is longer; 415, it is compressed.
        ClientGone: the client hung up before its end.
    """
    body = bytearray()
    size, more = 0, True
    while more and size <= _PATIENCE:
        message = await request.receive()
        if message["type"] != "http.request":
            raise ClientGone
        piece, more = message.get("body", b""), message.get("more_body", False)
        size += len(piece)
        if size <= limit:
            body += piece
        else:
            body.clear()
    if size > limit:
        raise HTTPException(
            status_code=413,
            detail=f"The body is longer than {format_bytes(limit)}. Send a shorter one.",
        )
    _check_coding(request.headers.get("content-encoding", ""))
    return body


def _check_coding(codings: str) -> None:
    """Refuse a compressed body by name: a few bytes of it could expand to any size.

    Args:
        codings: the Content-Encoding header; empty: there is none.

    Raises:
        HTTPException: 415, as RFC 9110 (15.5.16) has it.
    """
    named = {coding.strip().lower() for coding in codings.split(",")} - {"", "identity"}
    if named:
        shown = quoted(", ".join(sorted(named)))
        raise HTTPException(
            status_code=415,
            detail=f"The body is compressed (Content-Encoding: {shown}), which is not supported. "
            "Send it uncompressed.",
        )
