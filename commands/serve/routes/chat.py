"""`POST /v1/chat/completions`."""

from __future__ import annotations

import time
import uuid
from typing import Any

from litestar import Request, Response, post

from commands.serve.openapi import documented
from commands.serve.routes.answer import answer_request
from commands.serve.wire.openai.answers import ChatChunk, ChatCompletion
from commands.serve.wire.openai.decode import decode_chat
from commands.serve.wire.openai.encode import ChatEncoder
from commands.serve.wire.openai.schema import ChatRequest


@post(
    "/v1/chat/completions",
    status_code=200,
    opt=documented(body=ChatRequest, answer=ChatCompletion, event=ChatChunk),
)
async def chat_completions(request: Request[Any, Any, Any]) -> Response[Any]:
    """Answer a conversation."""
    return await answer_request(request, decode_chat, _encoder)


def _encoder(model: str) -> ChatEncoder:
    return ChatEncoder(id=f"chatcmpl-{uuid.uuid4()}", created=int(time.time()), model=model)
