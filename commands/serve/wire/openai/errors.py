"""The OpenAI protocol's error body. Knows no status: `commands.serve.failures` does."""

from __future__ import annotations

import msgspec

from commands.serve.wire.openai.schema import ErrorBody, ErrorDetail
from core import errors

# The types and codes that clients of the protocol know. Other failures have a message only.
_KINDS: dict[type[errors.MlxbunError], tuple[str, str | None]] = {
    errors.UsageProblem: ("invalid_request_error", None),
    errors.BadRequest: ("invalid_request_error", None),
    errors.ContextTooLong: ("memory_admission", "context_over_budget"),
    errors.QueueFull: ("resource_admission", "queue_full"),
    errors.EngineStopped: ("server_unavailable", "stopping"),
}


def error_body(error: errors.MlxbunError) -> bytes:
    """Return the body that tells a client about an error of ours."""
    kind, code = _KINDS.get(type(error), (None, None))
    message = f"{error.message} {error.hint}" if error.hint else error.message
    param = error.field if isinstance(error, errors.BadRequest) else None
    return _body(ErrorDetail(message=message, type=kind, code=code, param=param))


def message_body(message: str) -> bytes:
    """Return a body with a message alone."""
    return _body(ErrorDetail(message=message))


def _body(detail: ErrorDetail) -> bytes:
    return msgspec.json.encode(ErrorBody(error=detail))
