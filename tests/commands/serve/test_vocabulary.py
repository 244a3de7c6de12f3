"""A model with fewer rows than its tokenizer has ids: 400, and the server keeps answering."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import httpx

from core.engine.engine import Engine
from core.engine.loader import load
from core.engine.request import SamplingParams
from tests.commands.serve.live import live_server
from tests.core.engine.conftest import PLAN
from tests.core.engine.test_vocabulary import CASE
from tests.tiny import llama_config, make_model


def test_ids_beyond_the_model_are_a_400_and_the_server_keeps_answering(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "short", config=llama_config(vocab_size=CASE["model_rows"]))
    make = partial(
        load,
        folder,
        model_id="short",
        plan=PLAN,
        defaults=SamplingParams(),
        memory_budget_gb=None,
    )
    with Engine(make) as engine, live_server(engine) as base:
        client = partial(httpx.post, f"{base}/v1/completions", timeout=20, trust_env=False)
        for _ in range(3):
            refused = client(json=CASE["body"])
            assert refused.status_code == 400
            assert "the token ids 120, 121, 122" in refused.json()["error"]["message"]
        answered = client(json={**CASE["body"], "prompt": "!?"})
        assert answered.status_code == 200
        assert answered.json()["usage"]["completion_tokens"] == CASE["body"]["max_tokens"]
