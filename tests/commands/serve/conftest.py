"""One live server for the folder; each test writes its engine's script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from core.engine.request import SamplingParams
from tests.commands.serve.fake_engine import FakeEngine, Script
from tests.commands.serve.home import Home
from tests.commands.serve.live import live_server, serve_options
from tests.commands.serve.openai_schemas import CheckedClient
from tests.fakehub import FakeHub


@pytest.fixture(scope="package")
def _served() -> Iterator[tuple[FakeEngine, str]]:
    engine = FakeEngine()
    with live_server(engine, options=serve_options(keep_alive=0.1)) as base:
        yield engine, base


@pytest.fixture
def engine(_served: tuple[FakeEngine, str]) -> FakeEngine:
    fake = _served[0]
    fake.script, fake.choose, fake.alive, fake.adapter = Script(), None, True, None
    fake.mounted, fake.trainable, fake.chosen = None, None, SamplingParams()
    fake.kv, fake.kv_budget_bytes = None, None
    fake.forms = True
    fake.requests.clear()
    fake.generations.clear()
    return fake


@pytest.fixture
def base(_served: tuple[FakeEngine, str]) -> str:
    return _served[1]


@pytest.fixture
def client(engine: FakeEngine, base: str) -> Iterator[httpx.Client]:
    with CheckedClient(base_url=base, timeout=20, trust_env=False) as opened:
        yield opened


@pytest.fixture
def sdk(base: str, engine: FakeEngine) -> Iterator[openai.OpenAI]:
    """OpenAI's own client of the live server."""
    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        base_url=f"{base}/v1", api_key="x", max_retries=0, http_client=http
    ) as opened:
        yield opened


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


@pytest.fixture
def home(tmp_path: Path, hub: FakeHub) -> Iterator[Home]:
    """A server of its own with a home that the test may fill, and a Hub."""
    with Home.opened(tmp_path / "home", hub.url) as opened:
        yield opened
