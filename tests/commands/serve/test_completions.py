"""Text completions: several prompts, echoed prompts, OpenAI's arrays of log-probabilities."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest

from commands.serve.wire.openai.decode import decode_completion
from core.engine.events import Position, TokenLogprob
from core.engine.request import GenerationRequest, TextPrompt
from core.errors import ContextTooLong, QueueFull
from tests.commands.serve.fake_engine import FakeEngine, Script
from tests.commands.serve.live import wait_until

PATH = "/v1/completions"
NEEDED = (
    "prompt (a non-empty string) is required "
    "(token-array prompts are not accepted, matching mlx_lm.server)"
)


def _by_prompt(request: GenerationRequest) -> Script:
    assert isinstance(request.prompt, TextPrompt)
    return Script(pieces=(f"{request.prompt.text}!",))


def _chunks(client: httpx.Client, **body: Any) -> list[dict[str, Any]]:
    text = client.post(PATH, json={**body, "stream": True}).text
    assert text.endswith("data: [DONE]\n\n")
    lines = [line for line in text.split("\n\n") if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


# Several prompts


def test_every_prompt_has_its_choices(client: httpx.Client, engine: FakeEngine) -> None:
    engine.choose = _by_prompt
    body = client.post(PATH, json={"prompt": ["a", "b", "c"], "n": 2}).json()
    told = [(choice["index"], choice["text"]) for choice in body["choices"]]
    assert told == [(0, "a!"), (1, "a!"), (2, "b!"), (3, "b!"), (4, "c!"), (5, "c!")]
    assert body["usage"]["prompt_tokens"] == 3 * 7
    assert body["usage"]["prompt_tokens_details"]["cached_tokens"] == 3 * 2
    assert body["usage"]["completion_tokens"] == 6 * 2


def test_a_list_of_one_is_one(client: httpx.Client) -> None:
    (choice,) = client.post(PATH, json={"prompt": ["a"]}).json()["choices"]
    assert choice["text"] == "Hello, world"


def test_several_prompts_are_streamed_side_by_side(
    client: httpx.Client, engine: FakeEngine
) -> None:
    engine.choose = _by_prompt
    chunks = _chunks(client, prompt=["a", "b"], n=2)
    texts = [""] * 4
    for chunk in chunks:
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["text"]
    assert texts == ["a!", "a!", "b!", "b!"]
    assert [chunk for chunk in chunks if "usage" in chunk] == chunks[-1:]
    assert chunks[-1]["usage"]["prompt_tokens"] == 14


@pytest.mark.parametrize("prompt", [None, "", [], [""], ["a", ""], [1, 2], [[1]], ["a", 1], 7, {}])
def test_what_is_no_prompt(client: httpx.Client, prompt: Any) -> None:
    answer = client.post(PATH, json={"prompt": prompt})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == NEEDED
    assert answer.json()["error"]["param"] == "prompt"


def test_a_request_has_at_most_128_answers(client: httpx.Client) -> None:
    most = client.post(PATH, json={"prompt": ["a"] * 64, "n": 2})
    assert len(most.json()["choices"]) == 128
    for body in ({"prompt": ["a"] * 129}, {"prompt": ["a"] * 43, "n": 3}):
        answer = client.post(PATH, json=body)
        assert answer.status_code == 400
        assert "128" in answer.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_is_refused_refuses_all(
    client: httpx.Client, engine: FakeEngine, stream: bool
) -> None:
    engine.script = Script(refuse=ContextTooLong("Too long.", prompt_tokens=9, limit=8))
    assert client.post(PATH, json={"prompt": ["a", "b"], "stream": stream}).status_code == 400
    engine.script = Script(refuse=QueueFull("Full."))
    assert client.post(PATH, json={"prompt": ["a", "b"], "stream": stream}).status_code == 429


def test_a_client_that_leaves_frees_every_row(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(endless=True, delay=0.01)
    body = {"prompt": ["a"] * 5, "n": 2, "stream": True}
    with client.stream("POST", PATH, json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert engine.running == 10
    wait_until(lambda: engine.running == 0)


# Echoed prompts


def test_an_answer_may_begin_with_its_prompt(client: httpx.Client, engine: FakeEngine) -> None:
    engine.choose = _by_prompt
    body = {"prompt": ["a", "b"], "n": 2, "echo": True}
    whole = client.post(PATH, json=body).json()["choices"]
    assert [choice["text"] for choice in whole] == ["aa!", "aa!", "bb!", "bb!"]
    texts = [""] * 4
    for chunk in _chunks(client, **body):
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["text"]
    assert texts == ["aa!", "aa!", "bb!", "bb!"]
    plain = client.post(PATH, json={"prompt": "a", "echo": False}).json()
    assert plain["choices"][0]["text"] == "a!"


def test_log_probabilities_do_not_cover_an_echo(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = Script(pieces=("b",), logprobs=(_position(b"b", 0),))
    answer = client.post(PATH, json={"prompt": "aé", "echo": True, "logprobs": 1})
    assert answer.headers["warning"] == "echo: log-probabilities do not cover the prompt"
    assert answer.json()["choices"][0]["logprobs"]["text_offset"] == [2]


# Arrays


def _token(raw: bytes, logprob: float = -1.0) -> TokenLogprob:
    return TokenLogprob(token=len(raw), raw=raw, logprob=logprob)


def _position(raw: bytes, offset: int, *top: TokenLogprob) -> Position:
    return Position(chosen=_token(raw), top=top, offset=offset)


def test_an_integer_asks_for_arrays(client: httpx.Client, engine: FakeEngine) -> None:
    positions = (
        _position(b"Hi", 0, _token(b"Yo", -0.5), _token(b"Hi", -1.0)),
        _position(b"\xf0\x9f", 2, _token(b"!", -0.5), _token(b"?", -0.75)),
    )
    engine.script = Script(pieces=("Hi",), logprobs=positions)
    wanted = {
        "tokens": ["Hi", "bytes:\\xf0\\x9f"],
        "token_logprobs": [-1.0, -1.0],
        "top_logprobs": [
            {"Yo": -0.5, "Hi": -1.0},
            {"!": -0.5, "?": -0.75, "bytes:\\xf0\\x9f": -1.0},
        ],
        "text_offset": [0, 2],
    }
    choice = client.post(PATH, json={"prompt": "a", "logprobs": 2}).json()["choices"][0]
    assert choice["logprobs"] == wanted
    assert engine.requests[0].logprobs == 2
    joined: dict[str, list[Any]] = {}
    for chunk in _chunks(client, prompt="a", logprobs=2):
        for name, values in chunk["choices"][0].get("logprobs", {}).items():
            joined.setdefault(name, []).extend(values)
    assert joined == wanted


@pytest.mark.parametrize("fields", [{"logprobs": True, "top_logprobs": 1}, {"top_logprobs": 1}])
def test_true_asks_for_a_block(
    client: httpx.Client, engine: FakeEngine, fields: dict[str, Any]
) -> None:
    engine.script = Script(logprobs=(_position(b"Hi", 0, _token(b"Yo", -0.5)),))
    choice = client.post(PATH, json={"prompt": "a", **fields}).json()["choices"][0]
    (entry,) = choice["logprobs"]["content"]
    assert (entry["token"], entry["top_logprobs"][0]["token"]) == ("Hi", "Yo")


@pytest.mark.parametrize("value", [-1, 12, 1.0, 2.5, "2", [1], {}, 10**30])
def test_anything_else_has_the_fixed_text(client: httpx.Client, value: Any) -> None:
    answer = client.post(PATH, json={"prompt": "a", "logprobs": value})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "logprobs must be of type bool"


def test_a_chat_takes_no_integer(client: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "logprobs": 2}
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.json()["error"]["message"] == "logprobs must be of type bool"


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"logprobs": 0}, 0),
        ({"logprobs": 11, "top_logprobs": -1}, 11),
        ({"logprobs": 3, "top_logprobs": 3}, 3),
        ({"logprobs": False}, None),
    ],
)
def test_how_many_are_told(fields: dict[str, Any], wanted: int | None) -> None:
    body = json.dumps({"prompt": "a", **fields}).encode()
    assert decode_completion(body).request.logprobs == wanted


def test_two_numbers_of_them_contradict_each_other(client: httpx.Client) -> None:
    answer = client.post(PATH, json={"prompt": "a", "logprobs": 2, "top_logprobs": 3})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "top_logprobs"


# OpenAI's SDK


def test_the_sdk_reads_arrays_of_several_prompts(sdk: openai.OpenAI, engine: FakeEngine) -> None:
    engine.script = Script(logprobs=(_position(b"Hi", 0, _token(b"Yo", -0.5)),))
    answer = sdk.completions.create(model="x", prompt=["a", "b"], logprobs=1, echo=True)
    assert [choice.index for choice in answer.choices] == [0, 1]
    logprobs = answer.choices[1].logprobs
    assert logprobs is not None
    assert (logprobs.tokens, logprobs.text_offset) == (["Hi"], [1])
    assert logprobs.top_logprobs == [{"Yo": -0.5, "Hi": -1.0}]
