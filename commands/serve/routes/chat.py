"""`POST /v1/chat/completions`."""

from __future__ import annotations

import time
import uuid
from typing import Any

from litestar import Request, Response, post

from commands.serve.openapi import documented
from commands.serve.routes.answer import answer_call, decode_call
from commands.serve.routes.body import read_body
from commands.serve.wire.openai.decode import decode_chat
from commands.serve.wire.openai.encode import ChatEncoder
from commands.serve.wire.openai.schema import ChatChunk, ChatCompletion, ChatRequest


@post(
    "/v1/chat/completions",
    status_code=200,
    opt=documented(body=ChatRequest, answer=ChatCompletion, event=ChatChunk),
)
async def chat_completions(request: Request[Any, Any, Any]) -> Response[Any]:
    """Answer a conversation."""
    serving = request.app.state.serving
    call = await decode_call(serving, decode_chat, await read_body(request))
    encoder = ChatEncoder(
        id=f"chatcmpl-{uuid.uuid4()}", created=int(time.time()), model=serving.engine.info.model_id
    )
    return await answer_call(request, serving, call, encoder)
