"""Two hundred requests of clients that hang up at any moment: nothing of them stays behind."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from tests.processes import Server, wait_until

pytestmark = pytest.mark.starter

REQUESTS = 200
CLIENTS = 12
SLACK = 4_000_000  # bytes; the KV of one forgotten row is more
RESET = b"\1\0\0\0\0\0\0\0"  # SO_LINGER on, for no time: close() sends a reset


def test_nothing_stays_behind(server: Server) -> None:
    right = server.ask("What is the capital of France?", max_tokens=16)["choices"][0]["message"]
    wait_until(server.idle)
    before = server.get("/stats")
    dice = [random.Random(number) for number in range(REQUESTS)]
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda die: _visit(server.url, die), dice))
    wait_until(server.idle)
    after = server.get("/stats")
    asked = {
        name: after["requests"][name] - before["requests"][name] for name in before["requests"]
    }
    print(asked, _held(before), _held(after), after["prompt_cache"])  # noqa: T201
    # Every kind of end happened, and every request came to one.
    assert asked["cancelled"] > REQUESTS // 4
    assert asked["finished"] > REQUESTS // 20
    assert asked["finished"] + asked["cancelled"] == asked["submitted"] > REQUESTS // 2
    assert after["batch"]["kv_bytes"] == 0
    assert abs(_held(after) - _held(before)) < SLACK
    answer = server.ask("What is the capital of France?", max_tokens=16)["choices"][0]["message"]
    assert answer == right


def _held(stats: dict[str, dict[str, int]]) -> int:
    """Return the bytes in live arrays but for the prompt cache, which is kept on purpose."""
    return stats["memory"]["active_bytes"] - stats["prompt_cache"]["bytes"]


def _visit(url: str, die: random.Random) -> None:
    """Be one client: connect, send, and leave."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=60) as line:
        if die.random() < 0.3:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        die.choice(_WAYS)(line, die)


def _request(die: random.Random, *, stream: bool) -> bytes:
    question = f"Tell me about the number {die.randrange(1000)}." * die.choice((1, 1, 1, 8))
    wanted = {
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 12,
        "stream": stream,
    }
    body = json.dumps(wanted).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _before_its_request_is_sent(line: socket.socket, die: random.Random) -> None:
    request = _request(die, stream=die.random() < 0.5)
    line.sendall(request[: die.randrange(len(request))])


def _in_prefill(line: socket.socket, die: random.Random) -> None:
    line.sendall(_request(die, stream=die.random() < 0.5))
    time.sleep(die.uniform(0, 0.2))


def _waiting_for_a_whole_answer(line: socket.socket, die: random.Random) -> None:
    line.sendall(_request(die, stream=False))
    time.sleep(die.uniform(0, 2))


def _in_the_stream(line: socket.socket, die: random.Random) -> None:
    line.sendall(_request(die, stream=True))
    wanted, seen = die.randrange(1, 10), b""
    while seen.count(b"data: ") < wanted and (piece := line.recv(4096)):
        seen += piece


def _after_the_answer(line: socket.socket, die: random.Random) -> None:
    line.sendall(_request(die, stream=True))
    seen = b""
    while b"[DONE]" not in seen and (piece := line.recv(4096)):
        seen += piece
    assert b"[DONE]" in seen, seen


_WAYS: tuple[Callable[[socket.socket, random.Random], None], ...] = (
    _before_its_request_is_sent,
    _in_prefill,
    _in_prefill,
    _waiting_for_a_whole_answer,
    _in_the_stream,
    _after_the_answer,
)
