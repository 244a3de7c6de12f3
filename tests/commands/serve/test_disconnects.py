"""A client that hangs up frees its row: in prefill, in a stream, or waiting for a whole answer."""

from __future__ import annotations

import json
import socket
import threading
from urllib.parse import urlsplit

import httpx
import pytest

from core.engine.generation import Generation
from core.engine.request import GenerationRequest
from tests.commands.serve.fake_engine import FakeEngine, Script
from tests.commands.serve.live import live_server, wait_until

GOOD = {"messages": [{"role": "user", "content": "hi"}]}


def _send(base: str, *, stream: bool) -> socket.socket:
    where = urlsplit(base)
    body = json.dumps({**GOOD, "stream": stream}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    connection = socket.create_connection((where.hostname or "", where.port or 0))
    connection.sendall(head.encode() + body)
    return connection


@pytest.mark.parametrize("stream", [False, True])
def test_in_prefill(engine: FakeEngine, base: str, stream: bool) -> None:
    engine.script = Script(prefill=60)
    connection = _send(base, stream=stream)
    wait_until(lambda: engine.running == 1)
    connection.close()
    wait_until(lambda: engine.running == 0, 1.0)


def test_in_a_stream(engine: FakeEngine, base: str) -> None:
    engine.script = Script(endless=True, delay=0.01)
    connection = _send(base, stream=True)
    while b"world" not in connection.recv(4096):
        pass
    connection.close()
    wait_until(lambda: engine.running == 0, 1.0)


def test_waiting_for_a_whole_answer(engine: FakeEngine, base: str) -> None:
    engine.script = Script(endless=True, delay=0.01)
    connection = _send(base, stream=False)
    wait_until(lambda: engine.running == 1)
    connection.close()
    wait_until(lambda: engine.running == 0, 1.0)


def test_a_reset_connection(engine: FakeEngine, base: str) -> None:
    engine.script = Script(endless=True, delay=0.01)
    connection = _send(base, stream=True)
    wait_until(lambda: engine.running == 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
    wait_until(lambda: engine.running == 0, 1.0)


class _SlowToSubmit(FakeEngine):
    """Takes its time to tokenize."""

    def __init__(self) -> None:
        super().__init__(script=Script(endless=True, delay=0.01))
        self.entered = threading.Event()
        self.go_on = threading.Event()

    def submit_choices(self, request: GenerationRequest) -> list[Generation]:
        self.entered.set()
        self.go_on.wait(10)
        return super().submit_choices(request)


def test_while_the_prompt_is_tokenized() -> None:
    slow = _SlowToSubmit()
    with live_server(slow) as base:
        connection = _send(base, stream=True)
        assert slow.entered.wait(5)
        assert httpx.get(f"{base}/health", trust_env=False).status_code == 200  # the loop is free
        connection.close()
        wait_until(lambda: httpx.get(f"{base}/health", trust_env=False).status_code == 200)
        slow.go_on.set()
        wait_until(lambda: bool(slow.generations))
        wait_until(lambda: slow.running == 0, 1.0)


def test_while_the_body_is_sent(engine: FakeEngine, base: str) -> None:
    where = urlsplit(base)
    connection = socket.create_connection((where.hostname or "", where.port or 0))
    connection.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 999\r\n\r\n{"
    )
    connection.close()
    assert httpx.get(f"{base}/health", trust_env=False).status_code == 200


def test_the_row_of_a_finished_answer_is_let_go(engine: FakeEngine, client: httpx.Client) -> None:
    client.post("/v1/chat/completions", json=GOOD)
    client.post("/v1/chat/completions", json={**GOOD, "stream": True})
    wait_until(lambda: engine.running == 0, 1.0)
