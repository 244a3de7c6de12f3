"""The official OpenAI SDK against the real starter: what it sends is understood, what comes back
is what its types promise, and errors arrive as its own exceptions.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.processes import Server, wait_until

pytestmark = pytest.mark.starter

MODEL = "mlxbun/SmolLM2-135M-Instruct-4bit"
FRANCE = "What is the capital of France?"
COUNT = "Count from one to ten in words, separated by commas."


def _chat(client: openai.OpenAI, question: str = FRANCE, **options: Any) -> ChatCompletion:
    options = {"temperature": 0, "max_tokens": 24, **options}
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": question}], **options
    )
    assert isinstance(answer, ChatCompletion)
    return answer


def _text(client: openai.OpenAI, question: str = FRANCE, **options: Any) -> str:
    text = _chat(client, question, **options).choices[0].message.content
    assert text is not None
    return text


def _chunks(client: openai.OpenAI, question: str, **options: Any) -> list[ChatCompletionChunk]:
    options = {"temperature": 0, "max_tokens": 24, **options}
    stream = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": question}], stream=True, **options
    )
    return list(stream)


def _joined(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for c in chunks for choice in c.choices)


# Answers


def test_it_knows_the_capital_of_france(client: openai.OpenAI) -> None:
    answer = _chat(client)
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == MODEL
    assert answer.id.startswith("chatcmpl-")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_conversation_is_remembered(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[
            {"role": "user", "content": FRANCE},
            {"role": "assistant", "content": "The capital of France is Paris."},
            {"role": "user", "content": [{"type": "text", "text": "And of Italy?"}]},
        ],
        temperature=0,
        max_tokens=12,
    )
    assert "Rome" in (answer.choices[0].message.content or "")


def test_a_stream_joins_to_the_whole_answer(client: openai.OpenAI) -> None:
    chunks = _chunks(client, FRANCE)
    assert _joined(chunks) == _text(client)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}])
def test_the_last_chunk_tells_the_usage(client: openai.OpenAI, options: dict[str, Any]) -> None:
    whole = _chat(client).usage
    *others, last = _chunks(client, FRANCE, **options)
    assert all(chunk.usage is None for chunk in others)
    assert whole is not None
    assert last.usage is not None
    assert last.usage.completion_tokens == whole.completion_tokens
    assert last.usage.prompt_tokens == whole.prompt_tokens


def test_a_text_is_continued(client: openai.OpenAI) -> None:
    wanted: dict[str, Any] = {
        "model": MODEL,
        "prompt": "The capital of France is",
        "temperature": 0,
        "max_tokens": 8,
    }
    whole = client.completions.create(**wanted)
    assert "Paris" in whole.choices[0].text
    chunks = list(client.completions.create(**wanted, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason == "length"
    assert chunks[-1].usage.completion_tokens == 8


def test_max_tokens_ends_an_answer(client: openai.OpenAI) -> None:
    for options in ({"max_tokens": 5}, {"max_tokens": 99, "max_completion_tokens": 5}):
        answer = _chat(client, COUNT, **options)
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 5


def test_the_model_is_listed(client: openai.OpenAI) -> None:
    assert next(iter(client.models.list())).id == MODEL  # the served one comes first
    model = client.models.retrieve(MODEL)
    assert model.id == MODEL
    assert model.owned_by == "mlxbun"


# Stop texts


@pytest.mark.parametrize("stop", ["Paris", ["xyzzy", "is Pa"]])
def test_a_stop_text_is_never_sent(client: openai.OpenAI, stop: str | list[str]) -> None:
    before = _text(client).partition("Paris" if stop == "Paris" else "is Pa")[0]
    answer = _chat(client, stop=stop)
    assert answer.choices[0].message.content == before
    assert answer.choices[0].finish_reason == "stop"
    chunks = _chunks(client, FRANCE, stop=stop)
    assert _joined(chunks) == before
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_stop_text_that_does_not_come_holds_nothing_back(client: openai.OpenAI) -> None:
    assert _joined(_chunks(client, FRANCE, stop=["Paris, Texas", "..."])) == _text(client)


# Seeds


def test_a_seed_makes_an_answer_again(client: openai.OpenAI) -> None:
    story = "Tell me a story about a fox."
    first = _text(client, story, temperature=1, seed=7)
    assert _text(client, story, temperature=1, seed=7) == first
    assert _text(client, story, temperature=1, seed=8) != first
    assert _text(client, story, temperature=1) != _text(client, story, temperature=1)


def test_company_does_not_change_a_seeded_answer(client: openai.OpenAI) -> None:
    story = "Tell me a story about a bear."
    alone = _text(client, story, temperature=1, seed=7, max_tokens=16)
    others = ["Name a colour.", "Write a long poem about rain.", COUNT, "Why is the sky blue?"]
    with ThreadPoolExecutor(5) as pool:
        company = [pool.submit(_text, client, q, temperature=1, seed=1) for q in others]
        again = pool.submit(_text, client, story, temperature=1, seed=7, max_tokens=16)
        assert again.result() == alone
        assert all(future.result() for future in company)


# Errors


def test_a_bad_field_is_a_bad_request(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        _chat(client, temperature=-1)
    assert caught.value.param == "temperature"
    assert caught.value.type == "invalid_request_error"
    with pytest.raises(openai.BadRequestError, match="messages required"):
        client.chat.completions.create(model=MODEL, messages=[])
    with pytest.raises(openai.BadRequestError) as caught:
        _chat(client, stop=["a", ""])
    assert caught.value.param == "stop"


def test_too_long_a_prompt_is_a_bad_request(client: openai.OpenAI) -> None:
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": "word " * 9000}],
                stream=stream,
            )
        assert caught.value.code == "context_over_budget"


def test_an_unknown_path_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model=MODEL, input="text")


# Leaving early


def test_a_stream_that_is_closed_frees_its_row(client: openai.OpenAI, server: Server) -> None:
    before = server.get("/stats")["requests"]["cancelled"]
    with client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Write a very long story."}],
        max_tokens=4000,
        temperature=0,
        stream=True,
    ) as stream:
        next(chunk for chunk in stream if chunk.choices[0].delta.content)
        assert not server.idle()
    wait_until(server.idle)
    # The row is free before the handler of the request has counted how it ended.
    wait_until(lambda: server.get("/stats")["requests"]["cancelled"] == before + 1)


# Asynchronous


def test_the_asynchronous_client(client: openai.OpenAI, server: Server) -> None:
    alone = _text(client)

    async def ask() -> tuple[ChatCompletion, str]:
        transport = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with openai.AsyncOpenAI(
            base_url=f"{server.url}/v1", api_key="unused", max_retries=0, http_client=transport
        ) as asynchronous:
            whole, streamed = await asyncio.gather(
                _ask_whole(asynchronous), _ask_streamed(asynchronous)
            )
        return whole, streamed

    whole, streamed = asyncio.run(ask())
    assert whole.choices[0].message.content == streamed == alone


async def _ask_whole(client: openai.AsyncOpenAI) -> ChatCompletion:
    return await client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": FRANCE}],
        temperature=0,
        max_tokens=24,
    )


async def _ask_streamed(client: openai.AsyncOpenAI) -> str:
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": FRANCE}],
        temperature=0,
        max_tokens=24,
        stream=True,
    )
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
