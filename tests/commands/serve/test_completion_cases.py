"""Cases of the second round, on a server with a tiny model: continuations and log-probabilities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from core.engine.engine import Engine, EngineOptions
from core.engine.loader import load
from core.engine.request import SamplingParams
from tests.cases import round_2
from tests.commands.serve.live import live_server
from tests.core.engine.conftest import PLAN
from tests.tiny import make_model

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def _bodies(kind: str) -> list[dict[str, Any]]:
    return [case["body"] for case in round_2(kind)]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = make_model(tmp_path_factory.mktemp("models") / "tiny")
    make = partial(
        load,
        folder,
        model_id="tiny",
        plan=PLAN,
        defaults=SamplingParams(temperature=0.0),
        memory_budget_gb=None,
    )
    with (
        Engine(make, EngineOptions(max_tokens=6)) as engine,
        live_server(engine) as base,
        httpx.Client(base_url=base, timeout=60, trust_env=False) as opened,
    ):
        yield opened


def _chunks(client: httpx.Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    text = client.post(path, json={**body, "stream": True}).text
    assert text.endswith("data: [DONE]\n\n")
    lines = [line for line in text.split("\n\n") if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines]


@pytest.mark.parametrize("body", _bodies("completions"), ids=str)
def test_continuations(client: httpx.Client, body: dict[str, Any]) -> None:
    prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
    choices = client.post(TEXT, json=body).json()["choices"]
    alone = [
        client.post(TEXT, json={**body, "prompt": prompt}).json()["choices"][0]
        for prompt in prompts
    ]
    assert choices == [{**one, "index": index} for index, one in enumerate(alone)]
    if count := body.get("logprobs"):
        arrays = choices[0]["logprobs"]
        assert {len(array) for array in arrays.values()} == {body["max_tokens"]}
        assert set(arrays) == {"tokens", "token_logprobs", "top_logprobs", "text_offset"}
        assert all(count <= len(top) <= count + 1 for top in arrays["top_logprobs"])


@pytest.mark.parametrize("body", _bodies("logprobs"), ids=str)
def test_log_probabilities(client: httpx.Client, body: dict[str, Any]) -> None:
    whole = client.post(CHAT, json=body).json()["choices"][0]["logprobs"]["content"]
    assert len(whole) == body["max_tokens"]
    for entry in whole:
        assert entry["token"] == bytes(entry["bytes"]).decode("utf-8", "replace")
        assert len(entry["top_logprobs"]) == body["top_logprobs"]
        assert entry["logprob"] == entry["top_logprobs"][0]["logprob"]  # greedy
    chunks = _chunks(client, CHAT, body)
    parts = [chunk["logprobs"]["content"] for chunk in chunks if "logprobs" in chunk]
    assert [entry for part in parts for entry in part] == whole


def test_the_entry_is_the_token_that_was_drawn(client: httpx.Client) -> None:
    body = {"prompt": "abc", "max_tokens": 40, "temperature": 3, "seed": 2, "top_logprobs": 1}
    answer = client.post(TEXT, json=body).json()
    entries = answer["choices"][0]["logprobs"]["content"]
    assert len(entries) == answer["usage"]["completion_tokens"]
    assert any(entry["id"] != entry["top_logprobs"][0]["id"] for entry in entries)
    shown = b"".join(bytes(entry["bytes"]) for entry in entries if entry["id"] < 256)
    assert shown.decode("utf-8", "replace") == answer["choices"][0]["text"]


def test_offsets_say_where_tokens_begin(client: httpx.Client) -> None:
    text = "root ::= " + json.dumps("né ✓ 漢!", ensure_ascii=False)
    body = {"prompt": "x", "echo": True, "logprobs": 0, "max_tokens": 40, "guided_grammar": text}
    choice = client.post(TEXT, json=body).json()["choices"][0]
    assert choice["text"] == "xné ✓ 漢!"
    offsets = choice["logprobs"]["text_offset"]
    raw = "né ✓ 漢!".encode()
    starts = [1 + len(raw[:n].decode("utf-8", "ignore")) for n in range(len(raw))]
    assert offsets[: len(raw)] == starts


def test_a_hundred_and_twenty_eight_prompts(client: httpx.Client) -> None:
    prompts = [f"prompt {n}" for n in range(128)]
    answer = client.post(TEXT, json={"prompt": prompts, "max_tokens": 2}).json()
    assert [choice["index"] for choice in answer["choices"]] == list(range(128))
    assert answer["usage"]["completion_tokens"] <= 256
    assert answer["usage"]["prompt_tokens"] == sum(map(len, prompts))
