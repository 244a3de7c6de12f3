"""Whatever a request combines, a server on a real tiny engine answers or says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commands.serve.wire.openai import answers
from core.engine.engine import Engine, EngineOptions
from core.engine.loader import load
from core.engine.request import SamplingParams
from core.settings import Settings
from tests.commands.serve.live import live_server, wait_until
from tests.commands.serve.openai_schemas import CheckedClient
from tests.commands.serve.requests import REQUESTS
from tests.core.engine.conftest import PLAN
from tests.tiny import make_model

# As Qwen's and Hermes' templates write tools, calls and reasoning.
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n<tools>{% for t in tools %}{{ t | tojson }}\n{% endfor %}"
    '</tools> Answer with <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>\n'
    "{% endif %}{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['reasoning_content'] %}<think>{{ m['reasoning_content'] }}</think>{% endif %}"
    "{{ m['content'] }}{% for c in m['tool_calls'] or [] %}<tool_call>{{ c['function'] | tojson }}"
    "</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
    "{% endif %}"
)
TOGETHER = 8


@dataclass(frozen=True)
class Served:
    """A server on a tiny model."""

    base: str
    client: httpx.Client
    pool: ThreadPoolExecutor

    def ask_all(self, asked: list[tuple[str, dict[str, Any]]]) -> list[httpx.Response]:
        """Send requests side by side."""
        return list(self.pool.map(lambda one: self.client.post(one[0], json=one[1]), asked))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = make_model(_folder(tmp_path_factory), chat_template=TEMPLATE)
    make = partial(
        load,
        folder,
        model_id="tiny",
        plan=PLAN,
        defaults=SamplingParams(),
        memory_budget_gb=None,
    )
    with (
        Engine(make, EngineOptions(max_tokens=6)) as engine,
        live_server(engine, settings=Settings()) as base,
        CheckedClient(base_url=base, timeout=120, trust_env=False) as client,
        ThreadPoolExecutor(TOGETHER) as pool,
    ):
        yield Served(base, client, pool)
        wait_until(lambda: client.get("/stats").json()["batch"]["active_rows"] == 0)
        assert client.get("/health").status_code == 200


def _folder(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("models") / "tiny"


def _check(asked: tuple[str, dict[str, Any]], answer: httpx.Response) -> None:
    assert answer.status_code in (200, 400), answer.text
    path, body = asked
    if answer.status_code == 400:
        message = answer.json()["error"]["message"]
        assert 0 < len(message) < 500
    elif body.get("stream"):
        _check_stream(answer.text, body)
    elif path == "/v1/completions":
        _check_whole(msgspec.json.decode(answer.content, type=answers.TextCompletion), body)
    else:
        _check_whole(msgspec.json.decode(answer.content, type=answers.ChatCompletion), body)


def _check_whole(answer: answers.ChatCompletion | answers.TextCompletion, body: Any) -> None:
    assert len(answer.choices) == _count(body)
    assert isinstance(answer.usage, answers.Usage)
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    logprobs = body.get("logprobs")
    counted = isinstance(logprobs, int) and not isinstance(logprobs, bool)  # 0 asks for arrays too
    wants = counted or logprobs or (body.get("top_logprobs") or 0) > 0
    for choice in answer.choices:
        assert (choice.logprobs is not None) is bool(wants)
        if isinstance(choice, answers.ChatChoice) and choice.message.tool_calls:
            for call in choice.message.tool_calls:
                assert isinstance(json.loads(call.function.arguments), dict)


def _count(body: dict[str, Any]) -> int:
    """Return how many answers a request asks for."""
    prompts = body.get("prompt")
    return (body.get("n") or 1) * (len(prompts) if isinstance(prompts, list) else 1)


def _check_stream(text: str, body: dict[str, Any]) -> None:
    *events, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events if event[0] != ":"]
    assert not any("error" in chunk for chunk in chunks)
    ends = [c for chunk in chunks for c in chunk["choices"] if c["finish_reason"]]
    assert sorted(end["index"] for end in ends) == list(range(_count(body)))
    assert "usage" in chunks[-1]


def _answer_all(served: Served, asked: list[tuple[str, dict[str, Any]]]) -> None:
    for one, answer in zip(asked, served.ask_all(asked), strict=True):
        _check(one, answer)


_TOGETHER = st.lists(REQUESTS, min_size=TOGETHER, max_size=TOGETHER)
_UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck))


@settings(_UNHURRIED, max_examples=6)
@given(asked=_TOGETHER)
def test_some_requests(served: Served, asked: list[tuple[str, dict[str, Any]]]) -> None:
    _answer_all(served, asked)


@pytest.mark.slow  # budget: 6 minutes
@pytest.mark.timeout(900)
@settings(_UNHURRIED, max_examples=2000 // TOGETHER)
@given(asked=_TOGETHER)
def test_two_thousand_requests(served: Served, asked: list[tuple[str, dict[str, Any]]]) -> None:
    _answer_all(served, asked)


@pytest.mark.slow  # budget: 3 minutes
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_requests_made_from_the_document(served: Served, path: str, mode: str) -> None:
    import requests
    import schemathesis

    document = served.client.get("/schema/openapi.json").json()
    operation = schemathesis.openapi.from_dict(document)[path]["POST"]
    allowed = {400} if mode == "NEGATIVE" else {200, 400}
    session = requests.Session()
    session.trust_env = False

    @settings(_UNHURRIED, max_examples=250)
    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode]))
    def ask(case: Any) -> None:
        answer = case.call(base_url=served.base, session=session)
        assert answer.status_code in allowed, answer.text

    ask()
