"""A prompt that fills the context is refused in words that clients recognise."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import openai
import pytest

from core.engine.engine import Engine, EngineOptions
from core.engine.loader import load
from core.engine.request import SamplingParams
from tests.commands.serve.live import live_server
from tests.commands.serve.openai_schemas import CheckedClient
from tests.core.engine.conftest import PLAN
from tests.tiny import make_model

LONG = "a" * 600
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONG}]}),
    ("/v1/completions", {"prompt": LONG}),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = make_model(tmp_path_factory.mktemp("models") / "tiny")
    make = partial(
        load,
        folder,
        model_id="tiny",
        plan=PLAN,
        defaults=SamplingParams(),
        memory_budget_gb=None,
    )
    with Engine(make, EngineOptions()) as engine, live_server(engine) as address:
        yield address


@pytest.fixture
def client(base: str) -> Iterator[httpx.Client]:
    with CheckedClient(base_url=base, timeout=20, trust_env=False) as opened:
        yield opened


@pytest.mark.parametrize(("path", "body"), ASKED)
@pytest.mark.parametrize("stream", [False, True])
def test_the_limit_is_told_as_openai_tells_it(
    client: httpx.Client, path: str, body: dict[str, Any], stream: bool
) -> None:
    answer = client.post(path, json={**body, "stream": stream, "max_tokens": 2})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("memory_admission", "context_over_budget")
    assert error["message"].startswith("This model's maximum context length is 512 tokens. ")
    assert error["message"].endswith(" (context_length_exceeded)")
    assert client.get("/stats").json()["batch"]["pending_rows"] == 0


def test_the_sdk_shows_the_words_that_frameworks_look_for(base: str) -> None:
    http = openai.DefaultHttpxClient(trust_env=False)
    with (
        openai.OpenAI(base_url=f"{base}/v1", api_key="x", http_client=http) as sdk,
        pytest.raises(openai.BadRequestError, match=r"context_length_exceeded") as refused,
    ):
        sdk.chat.completions.create(model="x", messages=[{"role": "user", "content": LONG}])
    assert refused.value.code == "context_over_budget"
