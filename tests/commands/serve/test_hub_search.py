"""`/api/hub/search` and `/api/hub/serve`; and a Hub that is slow, beside a chat."""

from __future__ import annotations

import json
import shlex
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commands.serve.fake_engine import Script
from tests.commands.serve.home import Home
from tests.fakehub import FakeHub
from tests.processes import NOWHERE

SECRET = "hf_" + "s" * 30


@contextmanager
def _silent_hub() -> Iterator[tuple[str, threading.Event]]:
    """Yield the address of a Hub that takes every connection and never says anything."""
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(listener.accept()[0])
                except OSError:
                    return
                asked.set()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for connection in held:
                connection.close()


def test_what_was_found(home: Home, hub: FakeHub) -> None:
    hub.add("mlx-community/one-4bit", {"config.json": b"{}"})
    hub.add("org/two", {"config.json": b"{}"})
    assert home.get("/api/hub/search", params={"q": " one "}) == {
        "ok": True,
        "offline": False,
        "results": [
            {"id": "mlx-community/one-4bit", "downloads": 1, "likes": 0, "size_estimate": None}
        ],
    }
    assert hub.log == ["GET /api/models"]
    assert not home.paths.hub_cache.exists()


@pytest.mark.parametrize("query", ["", "?q=", "?q=%20", "?query=x"])
def test_without_words(home: Home, query: str) -> None:
    answer = home.client.get(f"/api/hub/search{query}")
    assert answer.status_code == 400
    assert answer.json() == {"ok": False, "error": "missing ?q="}


@pytest.mark.parametrize("query", ["%ff%fe", "%00", "../..", "a&b=c", "%ed%a0%80", "q" * 256])
def test_odd_words_are_just_words(home: Home, query: str) -> None:
    answer = home.client.get(f"/api/hub/search?q={query}")
    assert answer.status_code == 200
    assert answer.json()["results"] == []


def test_too_many_words(home: Home, hub: FakeHub) -> None:
    answer = home.client.get("/api/hub/search", params={"q": "x" * 257})
    assert (answer.status_code, hub.log) == (400, [])


def test_no_network_is_a_state_and_no_failure(tmp_path: Path) -> None:
    with Home.opened(tmp_path / "home", NOWHERE) as home:
        told = home.get("/api/hub/search", params={"q": "x"})
    assert (told["ok"], told["offline"], told["results"]) == (True, True, [])
    assert "cannot be reached" in told["error"]


@pytest.mark.parametrize(
    "more", [{"HF_HUB_OFFLINE": "1"}, {"HF_TOKEN": "two words"}, {"HF_ENDPOINT": "ftp://x"}]
)
def test_an_environment_that_forbids_it(tmp_path: Path, hub: FakeHub, more: dict[str, Any]) -> None:
    address = more.pop("HF_ENDPOINT", hub.url)
    with Home.opened(tmp_path / "home", address, **more) as home:
        told = home.get("/api/hub/search", params={"q": "x"})
    assert (told["offline"], told["results"]) == (True, [])
    assert "two words" not in told["error"]
    assert hub.log == []


@pytest.mark.parametrize(
    "raw", [b"", b"<html>", b"{}", b"[" * 100_000, b"\xff", b'"text"', b"null"], ids=repr
)
def test_a_hub_that_is_none(home: Home, hub: FakeHub, raw: bytes) -> None:
    hub.raw["/api/models"] = raw
    told = home.get("/api/hub/search", params={"q": "x"})
    assert (told["offline"], told["results"]) == (True, [])
    assert "does not answer like" in told["error"]


def test_a_hub_out_of_order(home: Home, hub: FakeHub) -> None:
    hub.broken = True
    told = home.get("/api/hub/search", params={"q": "x"})
    assert told["offline"] is True
    assert "status 500" in told["error"]


def test_rows_of_a_hostile_hub(home: Home, hub: FakeHub) -> None:
    good = {"id": "org/good", "downloads": 7, "likes": 2, "tags": ["mlx"]}
    odd = [
        {"id": "org/no-mlx", "tags": ["gguf"]},
        {"id": "../../etc", "tags": ["mlx"]},
        {"id": 5, "tags": ["mlx"]},
        {"tags": ["mlx"]},
        {"id": "org/x\x1b[31m", "tags": ["mlx"]},
        "org/name",
        None,
        {"id": "org/odd", "downloads": -1, "likes": True},
        {"id": "org/huge", "downloads": 10**400, "likes": 1e999},
    ]
    hub.raw["/api/models"] = json.dumps([*odd, good]).encode()
    assert home.get("/api/hub/search", params={"q": "x"})["results"] == [
        {"id": "org/odd", "downloads": 0, "likes": 0, "size_estimate": None},
        {"id": "org/huge", "downloads": 0, "likes": 0, "size_estimate": None},
        {"id": "org/good", "downloads": 7, "likes": 2, "size_estimate": None},
    ]
    hub.raw["/api/models"] = json.dumps([good] * 500).encode()
    assert len(home.get("/api/hub/search", params={"q": "x"})["results"]) == 30


def test_a_token_goes_to_the_hub_and_nowhere_else(tmp_path: Path, hub: FakeHub) -> None:
    hub.tokens.add(SECRET)
    with Home.opened(tmp_path / "home", hub.url, HF_TOKEN=SECRET) as home:
        assert home.get("/api/hub/search", params={"q": "x"})["offline"] is False
        hub.tokens.clear()
        told = home.get("/api/hub/search", params={"q": "x"})
    assert hub.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert told["offline"] is True
    assert "does not accept the token in HF_TOKEN" in told["error"]
    assert SECRET not in told["error"]


def test_a_hub_that_says_nothing_holds_up_nobody(tmp_path: Path) -> None:
    with _silent_hub() as (address, asked), Home.opened(tmp_path / "home", address) as home:
        home.engine.script = Script(pieces=("a", "b", "c"))
        with ThreadPoolExecutor(8) as pool:
            searches = [
                pool.submit(home.client.get, "/api/hub/search", params={"q": "x"}) for _ in range(8)
            ]
            assert asked.wait(5)
            begun = time.monotonic()
            assert home.client.get("/health").status_code == 200
            assert home.client.get("/downloads").status_code == 200
            assert home.client.get("/library").status_code == 200
            assert home.client.get("/api/gc/plan").status_code == 200
            body = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
            stream = home.client.post("/v1/chat/completions", json=body)
            assert stream.text.count('"content":') >= 3
            assert stream.text.endswith("data: [DONE]\n\n")
            # Not a measurement: the Hub is silent for longer than all of this may take.
            assert time.monotonic() - begun < 5
            assert not any(search.done() for search in searches)
            home.options.drain.give_up()


@pytest.mark.parametrize("model", ["org/name", "org/name@main", "a b", "$(reboot)", "x; y", "-x"])
def test_another_model_takes_another_start(home: Home, model: str) -> None:
    told = home.post("/api/hub/serve", {"model": f" {model} "})
    assert list(told) == ["ok", "restart_required", "command"]
    assert (told["ok"], told["restart_required"]) == (False, True)
    words = [word for word in shlex.split(told["command"]) if word != "--"]
    assert words == ["mlxbun", "serve", model]
    if model == "org/name":
        assert told["command"] == "mlxbun serve org/name"
