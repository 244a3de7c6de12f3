"""Crowds: no status but 200 and 429, no row left behind, memory back where it was."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.processes import Server, environ_of, serving, wait_until
from tests.soak.clients import Soak
from tests.tiny import llama_config, make_model

pytestmark = pytest.mark.slow  # budget: 7 minutes in all

MB = 10**6


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return make_model(tmp_path / "tiny", config=llama_config(max_position_embeddings=4096))


def resident(server: Server) -> int:
    """Return the bytes of RAM that the server's process holds."""
    command = ["ps", "-o", "rss=", "-p", str(server.process.pid)]
    return 1024 * int(subprocess.run(command, capture_output=True, check=True).stdout)


def check(server: Server, soak: Soak, before: int) -> None:
    """Check what a crowd must leave behind: nothing but what is kept on purpose."""
    wait_until(server.idle)
    after = server.get("/stats")
    print(dict(soak.statuses), after["requests"], after["prompt_cache"], before, resident(server))  # noqa: T201
    assert soak.broken == []
    assert set(soak.statuses) <= {0, 200, 429}
    assert soak.statuses[200] > soak.clients
    assert after["batch"]["kv_bytes"] == 0
    requests = after["requests"]
    assert requests["failed"] == 0
    assert requests["finished"] + requests["cancelled"] == requests["submitted"]
    assert resident(server) < 1.1 * before + after["prompt_cache"]["bytes"] + 20 * MB
    assert "Traceback" not in server.said()
    assert server.stop() == 0


@pytest.mark.timeout(400)
def test_64_clients_for_three_minutes(tiny: Path, tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    arguments = (str(tiny), "--prompt-cache", "0.02")
    with serving(*arguments, environ=environ, log=tmp_path / "stderr") as server:
        # A first crowd brings the allocator to its size: what is held then is the level.
        Soak(server=server, clients=64, seconds=20, longest_prompt=300, most_tokens=60).run()
        wait_until(server.idle)
        before = resident(server)
        soak = Soak(server=server, clients=64, seconds=180, longest_prompt=300, most_tokens=60)
        soak.run()
        check(server, soak, before)


@pytest.mark.timeout(300)
def test_16_clients_and_a_prompt_cache_that_holds_almost_nothing(
    tiny: Path, tmp_path: Path
) -> None:
    environ = environ_of(tmp_path / "home")
    # Three conversations' worth: every answer pushes another one out while rows still run.
    arguments = (str(tiny), "--prompt-cache", "0.0015")
    with serving(*arguments, environ=environ, log=tmp_path / "stderr") as server:
        Soak(server=server, clients=16, seconds=5, longest_prompt=60, most_tokens=30).run()
        before = resident(server)
        soak = Soak(server=server, clients=16, seconds=40, longest_prompt=60, most_tokens=30)
        soak.run()
        cache = server.get("/stats")["prompt_cache"]
        assert cache["bytes"] <= cache["max_bytes"] < 2 * MB
        check(server, soak, before)


@pytest.mark.starter
@pytest.mark.timeout(300)
def test_a_minute_on_the_starter(starter_folder: Path, tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    arguments = (str(starter_folder), "--prompt-cache", "0.2")
    with serving(*arguments, environ=environ, log=tmp_path / "stderr") as server:
        # As above; on a busy machine a few seconds are not enough answers for that.
        while server.get("/stats")["requests"]["finished"] < 60:
            Soak(server=server, clients=12, seconds=10, longest_prompt=60, most_tokens=20).run()
        wait_until(server.idle)
        before = resident(server)
        soak = Soak(server=server, clients=12, seconds=60, longest_prompt=60, most_tokens=20)
        soak.run()
        check(server, soak, before)
