"""The shapes of answers, byte by byte where clients compare bytes, and through OpenAI's SDK."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from core.errors import ContextTooLong, EngineFailed, QueueFull
from tests.commands.serve.fake_engine import FakeEngine, Script

CHAT = "/v1/chat/completions"
GOOD: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 4,
    "total_tokens": 11,
    "prompt_tokens_details": {"cached_tokens": 2},
    "lane": "batched",
}
BROKEN = {"message": "Out of memory.", "type": "server_error", "param": None, "code": None}
CHAT_USAGE = {**USAGE, "completion_tokens_details": {"reasoning_tokens": 0}}


def _events(answer: httpx.Response) -> list[Any]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    lines = [line for line in answer.text.split("\n\n") if line and not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines)
    data = [line.removeprefix("data: ") for line in lines]
    return [line if line == "[DONE]" else json.loads(line) for line in data]


def test_a_whole_chat_answer(client: httpx.Client) -> None:
    answer = client.post(CHAT, json=GOOD)
    body = answer.json()
    assert body.pop("id").startswith("chatcmpl-")
    assert body.pop("created") > 1_700_000_000
    assert body == {
        "object": "chat.completion",
        "model": "acme/tiny-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello, world", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": CHAT_USAGE,
    }


def test_a_streamed_chat_answer(client: httpx.Client) -> None:
    *chunks, done = _events(client.post(CHAT, json={**GOOD, "stream": True}))
    assert done == "[DONE]"
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert deltas[1:-1] == [{"content": "Hello"}, {"content": ", "}, {"content": "world"}]
    assert deltas[-1] == {}
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]
    assert chunks[-1]["usage"] == CHAT_USAGE
    assert not any("usage" in chunk for chunk in chunks[:-1])


def test_a_whole_continuation(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(reason="length")
    body = client.post("/v1/completions", json={"prompt": "a"}).json()
    assert body.pop("id").startswith("cmpl-")
    del body["created"]
    assert body == {
        "object": "text_completion",
        "model": "acme/tiny-1",
        "choices": [
            {"index": 0, "text": "Hello, world", "logprobs": None, "finish_reason": "length"}
        ],
        "usage": USAGE,
    }


def test_a_streamed_continuation(client: httpx.Client) -> None:
    *chunks, done = _events(client.post("/v1/completions", json={"prompt": "a", "stream": True}))
    assert done == "[DONE]"
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["Hello", ", ", "world", ""]
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"] == USAGE


def test_an_answer_that_breaks_off_ends_its_stream_with_the_error(
    client: httpx.Client, engine: FakeEngine
) -> None:
    engine.script = Script(error=EngineFailed("Out of memory."))
    *chunks, last = _events(client.post(CHAT, json={**GOOD, "stream": True}))
    assert last == {"error": BROKEN}
    assert chunks[-1]["choices"][0]["delta"] == {"content": "world"}


def test_an_answer_that_breaks_off_whole_is_a_500(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(error=EngineFailed("Out of memory."))
    answer = client.post(CHAT, json=GOOD)
    assert answer.status_code == 500
    assert answer.json() == {"error": BROKEN}


def test_silence_is_bridged_with_comments(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(prefill=0.35)
    text = client.post(CHAT, json={**GOOD, "stream": True}).text
    assert text.count(": keep-alive\n\n") >= 2
    assert text.endswith("data: [DONE]\n\n")


def test_many_at_once(client: httpx.Client, engine: FakeEngine, base: str) -> None:
    import asyncio

    engine.script = Script(delay=0.01)

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=base, timeout=20, trust_env=False) as many:
            return await asyncio.gather(*(many.post(CHAT, json=GOOD) for _ in range(50)))

    answers = asyncio.run(ask())
    assert {answer.json()["choices"][0]["message"]["content"] for answer in answers} == {
        "Hello, world"
    }
    assert len({answer.json()["id"] for answer in answers}) == 50


def test_the_sdk_reads_a_chat_answer(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(model="x", messages=[{"role": "user", "content": "hi"}])
    assert answer.choices[0].message.content == "Hello, world"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 2


def test_the_sdk_reads_a_stream(sdk: openai.OpenAI) -> None:
    stream = sdk.chat.completions.create(
        model="x",
        messages=[{"role": "user", "content": "hi"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello, world"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 11


def test_the_sdk_reads_a_continuation(sdk: openai.OpenAI) -> None:
    assert sdk.completions.create(model="x", prompt="a").choices[0].text == "Hello, world"
    pieces = sdk.completions.create(model="x", prompt="a", stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == "Hello, world"


def test_the_sdk_lists_and_retrieves_models(sdk: openai.OpenAI) -> None:
    assert [model.id for model in sdk.models.list()][:1] == ["acme/tiny-1"]
    model = sdk.models.retrieve("acme/tiny-1")
    assert (model.id, model.owned_by, model.created) == ("acme/tiny-1", "mlxbun", 1_760_000_000)


def test_the_sdk_raises_its_own_exceptions(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    def ask() -> None:
        sdk.chat.completions.create(model="x", messages=[{"role": "user", "content": "hi"}])

    engine.script = Script(refuse=QueueFull("Too many requests wait."))
    with pytest.raises(openai.RateLimitError) as full:
        ask()
    assert full.value.code == "queue_full"
    engine.script = Script(refuse=ContextTooLong("Too long.", prompt_tokens=9, limit=8))
    with pytest.raises(openai.BadRequestError) as long:
        ask()
    assert long.value.code == "context_over_budget"
    engine.script = Script(error=EngineFailed("It broke."))
    with pytest.raises(openai.InternalServerError):
        ask()
    with pytest.raises(openai.NotFoundError):
        sdk.embeddings.create(model="x", input="a")
    with pytest.raises(openai.APIError, match=r"It broke\."):
        list(
            sdk.chat.completions.create(
                model="x", messages=[{"role": "user", "content": "hi"}], stream=True
            )
        )
