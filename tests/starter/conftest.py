"""One `mlxbun serve` on the real starter for all tests in this folder, healthy between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from core.paths import Paths
from tests.processes import Server, environ_of, serving, wait_until


@pytest.fixture(scope="session")
def starter_environ(
    starter_folder: Path, starter_paths: Paths, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Return an environment with an empty home and the starter in its cache."""
    home = tmp_path_factory.mktemp("home")
    return environ_of(home, HF_HUB_CACHE=str(starter_paths.hub_cache))


@pytest.fixture(scope="session")
def shared_server(
    starter_environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Start the server once; at the end one Ctrl-C must end it in order."""
    log = tmp_path_factory.mktemp("serve") / "stderr"
    with serving("starter", environ=starter_environ, log=log) as server:
        yield server
        assert server.stop() == 0
        assert "Traceback" not in server.said()


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    """Return the server; whatever a test does to it, it must come to rest and stay healthy."""
    yield shared_server
    wait_until(shared_server.idle)
    assert shared_server.get("/health") == {"status": "ok"}


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    """Return the official SDK, which asks once and asks no proxy."""
    transport = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        base_url=f"{server.url}/v1", api_key="unused", max_retries=0, http_client=transport
    ) as client:
        yield client
