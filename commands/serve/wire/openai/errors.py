"""The OpenAI protocol's error body. Knows no status: `commands.serve.failures` does."""

from __future__ import annotations

import msgspec

from commands.serve.wire.openai.schema import ErrorBody, ErrorDetail
from core import errors

_INVALID = "invalid_request_error"

# Type and code of an error; a class that is not listed has those of its nearest base.
_KINDS: dict[type[BaseException], tuple[str, str | None]] = {
    errors.MlxbunError: ("server_error", None),
    errors.UsageProblem: (_INVALID, None),
    errors.ContextTooLong: ("memory_admission", "context_over_budget"),
    errors.NotFound: (_INVALID, None),
    errors.Ambiguous: (_INVALID, None),
    errors.QueueFull: ("resource_admission", "queue_full"),
    errors.EngineStopped: ("server_unavailable", "stopping"),
}

NOT_FOUND = b'{"error":{"message":"not found"}}'
"""Clients compare this body byte by byte."""


def error_body(error: errors.MlxbunError) -> bytes:
    """Return the body for an error of ours."""
    kind, code = next(_KINDS[base] for base in type(error).__mro__ if base in _KINDS)
    message = f"{error.message} {error.hint}" if error.hint else error.message
    if isinstance(error, errors.ContextTooLong):
        message += " (context_length_exceeded)"  # OpenAI's code, which clients look for anywhere
    param = error.field if isinstance(error, errors.BadRequest) else None
    return _body(ErrorDetail(message=message, type=kind, param=param, code=code))


def refusal_body(message: str) -> bytes:
    """Return the body for a request that cannot be answered as it is."""
    return _body(ErrorDetail(message=message, type=_INVALID, param=None, code=None))


def failure_body(message: str) -> bytes:
    """Return the body for a failure of the server."""
    return _body(ErrorDetail(message=message, type="server_error", param=None, code=None))


def _body(detail: ErrorDetail) -> bytes:
    return msgspec.json.encode(ErrorBody(error=detail))
