"""`POST /v1/completions`."""

from __future__ import annotations

import time
import uuid
from typing import Any

from litestar import Request, Response, post

from commands.serve.openapi import documented
from commands.serve.routes.answer import answer_request
from commands.serve.wire.openai.answers import TextCompletion
from commands.serve.wire.openai.decode import decode_completion
from commands.serve.wire.openai.encode import TextEncoder
from commands.serve.wire.openai.schema import CompletionRequest


@post(
    "/v1/completions",
    status_code=200,
    opt=documented(body=CompletionRequest, answer=TextCompletion, event=TextCompletion),
)
async def completions(request: Request[Any, Any, Any]) -> Response[Any]:
    """Continue a text."""
    return await answer_request(request, decode_completion, _encoder)


def _encoder(model: str) -> TextEncoder:
    return TextEncoder(id=f"cmpl-{uuid.uuid4()}", created=int(time.time()), model=model)
