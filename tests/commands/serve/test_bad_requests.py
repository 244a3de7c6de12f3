"""Whatever comes, the answer is a 4xx with a sentence, and the next good request is answered."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.errors import ContextTooLong, EngineFailed, EngineStopped, QueueFull
from tests.commands.serve.fake_engine import FakeEngine, Script

CHAT = "/v1/chat/completions"
GOOD = {"messages": [{"role": "user", "content": "hi"}]}


def _cases(name: str) -> list[dict[str, Any]]:
    lines = (Path(__file__).parent / "cases" / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


CASES = _cases("bad-requests.jsonl") + _cases("bad-requests-more.jsonl")


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_bad_request_is_told_what_is_wrong(client: httpx.Client, number: int) -> None:
    case = CASES[number]
    body = case["raw"] if "raw" in case else json.dumps(case["body"])
    answer = client.post(case["path"], content=body)
    assert answer.status_code == case["status"], answer.text
    message = answer.json()["error"]["message"]
    assert case["names"] in message
    assert message
    assert len(message) < 300
    assert client.post(CHAT, json=GOOD).status_code == 200


@pytest.mark.parametrize(
    "body", [b'{"messages":[{"role":"user","content":"\xff\xfe"}]}', b"\x00\x01\x02", b"\xef\xbb"]
)
def test_bytes_that_are_no_text(client: httpx.Client, body: bytes) -> None:
    answer = client.post(CHAT, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "invalid JSON body"


def test_the_content_type_does_not_matter(client: httpx.Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"):
        answer = client.post(CHAT, content=json.dumps(GOOD), headers={"content-type": kind})
        assert answer.status_code == 200


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br", "deflate", "Identity, GZIP"])
@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_a_compressed_body_is_refused_as_such(client: httpx.Client, path: str, coding: str) -> None:
    content = gzip.compress(json.dumps({**GOOD, "prompt": "a"}).encode())
    answer = client.post(path, content=content, headers={"content-encoding": coding})
    assert answer.status_code == 415
    message = answer.json()["error"]["message"]
    assert coding.lower().removeprefix("identity, ") in message
    assert "compressed" in message


def test_a_body_that_says_it_is_not_compressed_is_read(client: httpx.Client) -> None:
    for coding in ("identity", ""):
        answer = client.post(CHAT, json=GOOD, headers={"content-encoding": coding})
        assert answer.status_code == 200


def test_a_body_of_fifty_megabytes_reaches_the_engine(
    client: httpx.Client, engine: FakeEngine
) -> None:
    problem = ContextTooLong("The prompt is too long.", prompt_tokens=9_000_000, limit=2048)
    engine.script = Script(refuse=problem)
    text = "a" * 50_000_000
    answer = client.post(CHAT, json={"messages": [{"role": "user", "content": text}]})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("memory_admission", "context_over_budget")
    engine.script = Script()
    assert client.post(CHAT, json=GOOD).status_code == 200


def test_a_body_beyond_the_limit_is_answered_not_reset(client: httpx.Client) -> None:
    def pieces() -> Any:
        for _ in range(101):
            yield b" " * 1_000_000

    for content in (b" " * 101_000_000, pieces()):
        answer = client.post(CHAT, content=content)
        assert answer.status_code == 413
        assert "100 MB" in answer.json()["error"]["message"]
    assert client.post(CHAT, json=GOOD).status_code == 200


@pytest.mark.parametrize(
    ("error", "status", "detail"),
    [
        (QueueFull("Full."), 429, {"type": "resource_admission", "code": "queue_full"}),
        (EngineFailed("It broke."), 500, {"message": "It broke."}),
        (EngineStopped("Gone."), 503, {"message": "Gone."}),
        (KeyError("a defect"), 500, {"message": "The server failed on this request (KeyError)."}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_the_engine_refuses_has_a_status_of_its_own(
    client: httpx.Client,
    engine: FakeEngine,
    error: Exception,
    status: int,
    detail: dict[str, str],
    stream: bool,
) -> None:
    engine.script = Script(refuse=error)
    answer = client.post(CHAT, json={**GOOD, "stream": stream})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert detail.items() <= answer.json()["error"].items()
    assert ("retry-after" in answer.headers) is (status in (429, 503))
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    engine.script = Script()
    assert client.post(CHAT, json=GOOD).status_code == 200


def test_no_op_values_are_accepted(client: httpx.Client) -> None:
    no_ops: dict[str, Any] = {
        "n": 1,
        "logprobs": False,
        "top_logprobs": -1,
        "logit_bias": {},
        "tools": [],
        "tool_choice": "auto",
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "repetition_penalty": 1,
        "repetition_context_size": 20,
        "xtc_probability": 0,
        "response_format": {"type": "text"},
        "reasoning_effort": "none",
        "adapter": "none",
        "hlg": {"enabled": False},
        "stream_options": {"include_usage": True},
        "model": "whatever",
        "stop": [],
        "parallel_tool_calls": True,
        "user": "me",
    }
    assert client.post(CHAT, json={**GOOD, **no_ops}).status_code == 200
    nothing = dict.fromkeys(no_ops)
    assert client.post(CHAT, json={**GOOD, **nothing}).status_code == 200


def test_tools_are_accepted_when_the_request_turns_them_off(client: httpx.Client) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    answer = client.post(CHAT, json={**GOOD, "tools": tools, "tool_choice": "none"})
    assert answer.status_code == 200


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_an_adapter_that_is_on_the_model_cannot_be_left_out(
    client: httpx.Client, engine: FakeEngine, path: str
) -> None:
    engine.adapter = "poet"
    asked = GOOD if path == CHAT else {"prompt": "hi"}
    for adapter, status in (("none", 400), ("other", 400), ("poet", 200), (None, 200)):
        answer = client.post(path, json={**asked, "adapter": adapter})
        assert answer.status_code == status, adapter
    refused = client.post(path, json={**asked, "adapter": "none"}).json()["error"]
    assert 'all answers are given with "poet"' in refused["message"]
    assert refused["param"] == "adapter"
