"""Bodies and histories as clients send them, from the shared cases, and OpenAI's own schemas."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from core.errors import EngineFailed
from tests.cases import round_2
from tests.commands.serve.fake_engine import FakeEngine, Script
from tests.commands.serve.openai_schemas import CHAT, CHAT_CHUNK, ERROR, MODELS, check_body

PATH = "/v1/chat/completions"
GOOD: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
CASES = [*round_2("body"), *round_2("history")]


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.parametrize("stream", [False, True])
def test_what_clients_send_is_answered(client: httpx.Client, number: int, stream: bool) -> None:
    case = CASES[number]
    raw = case.get("raw") or json.dumps({"messages": case["messages"], "max_tokens": 2})
    start, _, end = raw.rpartition("}")
    raw = f'{start},"stream":{json.dumps(stream)}}}{end}'
    assert client.post(PATH, content=raw.encode()).status_code == case["want"]


@pytest.mark.parametrize("stream", [False, True])
def test_warnings_of_the_body_and_of_the_engine_stand_in_one_header(
    client: httpx.Client, engine: FakeEngine, stream: bool
) -> None:
    engine.script = Script(warnings=("grammar not enforced: x",))
    body = {**GOOD, "tools": [{"type": "web_search"}], "stream": stream}
    answer = client.post(PATH, content=json.dumps({**body, "user": "\ud800"}))
    assert answer.headers["warning"] == (
        "the body holds half of a UTF-16 surrogate pair, replaced by U+FFFD; "
        'tools left out, only functions can be called: "web_search"; grammar not enforced: x'
    )


def test_the_checks_find_what_is_wrong(client: httpx.Client, engine: FakeEngine) -> None:
    whole = client.post(PATH, json=GOOD).json()
    del whole["choices"][0]["logprobs"]
    with pytest.raises(AssertionError, match="logprobs"):
        check_body(CHAT, whole)
    with pytest.raises(AssertionError, match="code"):
        check_body(ERROR, {"error": {"message": "x", "type": "y", "param": None}})
    with pytest.raises(AssertionError, match="object"):
        check_body(MODELS, {"data": []})
    engine.script = Script(error=EngineFailed("It broke."))
    text = client.post(PATH, json={**GOOD, "stream": True}).text
    first, *_, last, _ = text.split("\n\n")
    check_body(CHAT_CHUNK, json.loads(first.removeprefix("data: ")))
    check_body(ERROR, json.loads(last.removeprefix("data: ")))
