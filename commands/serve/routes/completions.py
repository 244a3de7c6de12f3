"""`POST /v1/completions`."""

from __future__ import annotations

import time
import uuid
from typing import Any

from litestar import Request, Response, post

from commands.serve.openapi import documented
from commands.serve.routes.answer import answer_call, decode_call
from commands.serve.routes.body import read_body
from commands.serve.wire.openai.decode import decode_completion
from commands.serve.wire.openai.encode import TextEncoder
from commands.serve.wire.openai.schema import CompletionRequest, TextCompletion


@post(
    "/v1/completions",
    status_code=200,
    opt=documented(body=CompletionRequest, answer=TextCompletion, event=TextCompletion),
)
async def completions(request: Request[Any, Any, Any]) -> Response[Any]:
    """Continue a text."""
    serving = request.app.state.serving
    call = await decode_call(serving, decode_completion, await read_body(request))
    encoder = TextEncoder(
        id=f"cmpl-{uuid.uuid4()}", created=int(time.time()), model=serving.engine.info.model_id
    )
    return await answer_call(request, serving, call, encoder)
