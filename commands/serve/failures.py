"""What a failed request is answered: one table from our error types to HTTP statuses.

The bodies are the wire's. Foreign exceptions are logged with their stack and answered without it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from litestar import Request, Response
from litestar.exceptions import HTTPException

from commands.serve.wire import api
from commands.serve.wire.openai.errors import (
    NOT_FOUND,
    error_body,
    failure_body,
    refusal_body,
)
from core import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.types import ExceptionHandlersMap

_log = logging.getLogger("mlxbun.serve")

STATUSES: dict[type[errors.MlxbunError], int] = {
    errors.MlxbunError: 500,
    errors.UsageProblem: 400,
    errors.BadRequest: 400,
    errors.ContextTooLong: 400,
    errors.NotFound: 404,
    errors.VaultMissing: 404,
    errors.Ambiguous: 400,
    errors.AddressInUse: 500,
    errors.AlreadyRunning: 409,
    errors.VaultBusy: 409,
    errors.VaultChanged: 409,
    errors.DoesNotFit: 507,
    errors.BackendMissing: 500,
    errors.GitMissing: 503,
    errors.BadModelFiles: 500,
    errors.DownloadFailed: 502,
    errors.UploadFailed: 502,
    errors.ProofFailed: 422,
    errors.StoreCorrupt: 500,
    errors.EngineFailed: 500,
    errors.QueueFull: 429,
    errors.EngineStopped: 503,
    errors.EngineLost: 503,
}

# What a client should wait before it tries again, in seconds.
_RETRY_AFTER = {429: "1", 503: "5"}


class ClientGone(Exception):
    """The client hung up: there is nobody to answer."""


def handlers() -> ExceptionHandlersMap:
    """Return the handlers for everything that a route can raise."""
    return _handlers(error_body, refusal_body, failure_body)


def api_handlers() -> ExceptionHandlersMap:
    """Return the same for the routes under `/api`, whose errors have a body of their own."""
    return _handlers(api.error_body, api.problem_body, api.problem_body)


def unexpected_body(error: Exception) -> bytes:
    """Log a defect with its stack and return the body that tells of it."""
    return failure_body(unexpected_message(error))


def unexpected_message(error: Exception) -> str:
    """Log a defect with its stack and return the sentence that a client may read."""
    _log.error("a request failed", exc_info=error)
    return f"The server failed on this request ({type(error).__name__})."


def _handlers(
    of_error: Callable[[errors.MlxbunError], bytes],
    of_refusal: Callable[[str], bytes],
    of_failure: Callable[[str], bytes],
) -> ExceptionHandlersMap:
    def ours(_request: Request[Any, Any, Any], error: errors.MlxbunError) -> Response[bytes]:
        return _json(of_error(error), STATUSES[type(error)])

    def litestars(_request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
        # A wrong method is answered like a wrong path: that is what clients of the protocol expect.
        if error.status_code in (404, 405):
            return _json(NOT_FOUND, 404)
        body = of_refusal if error.status_code < 500 else of_failure
        return _json(body(error.detail), error.status_code)

    def nobodys(_request: Request[Any, Any, Any], _error: ClientGone) -> Response[bytes]:
        return _json(of_refusal("The client hung up."), 499)

    def foreign(_request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        return _json(of_failure(unexpected_message(error)), 500)

    return {
        errors.MlxbunError: ours,
        HTTPException: litestars,
        ClientGone: nobodys,
        Exception: foreign,
    }


def _json(body: bytes, status: int) -> Response[bytes]:
    wait = _RETRY_AFTER.get(status)
    headers = {"retry-after": wait} if wait else None
    return Response(body, status_code=status, media_type="application/json", headers=headers)
