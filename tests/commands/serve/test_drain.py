"""Signals, against a real process: what runs is finished, what is new is refused, exit code 0."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.commands.serve.openai_schemas import CheckedClient

GOOD = {"messages": [{"role": "user", "content": "hi"}]}
CHAT = "/v1/chat/completions"
_ROOT = Path(__file__).parents[3]


class _Server:
    """A process and its address."""

    def __init__(self, process: subprocess.Popen[str], base: str) -> None:
        self.process = process
        self.base = base
        self.client = self.another_client()

    def another_client(self) -> httpx.Client:
        return CheckedClient(base_url=self.base, timeout=20, trust_env=False)

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(
        self, *, stream: bool, wait: bool = True
    ) -> tuple[threading.Thread, list[httpx.Response]]:
        """Ask in a thread; return it and the list that will hold the answer."""
        answers: list[httpx.Response] = []
        body = {**GOOD, "stream": stream}
        thread = threading.Thread(target=lambda: answers.append(self.client.post(CHAT, json=body)))
        thread.start()
        if wait:
            self.wait_until_busy()
        return thread, answers

    def wait_until_busy(self) -> None:
        while not self.client.get("/stats").json()["batch"]["active_rows"]:
            time.sleep(0.02)


@contextmanager
def _serving(delay: float, patience: float, submit: float = 0) -> Iterator[_Server]:
    module = "tests.commands.serve.run_fake"
    command = [sys.executable, "-m", module, *map(str, (delay, patience, submit))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
        try:
            assert process.stdout is not None
            server = _Server(process, process.stdout.readline().strip())
            _wait_for(server)
            yield server
        finally:
            process.kill()


def _wait_for(server: _Server) -> None:
    for _ in range(500):
        try:
            server.client.get("/health")
        except httpx.ConnectError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("the server does not listen")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("stream", [False, True])
def test_a_signal_drains(number: signal.Signals, stream: bool) -> None:
    with _serving(delay=0.1, patience=30) as server:
        thread, answers = server.ask(stream=stream)
        server.process.send_signal(number)
        assert server.read_line() == "draining 1"
        refused = server.client.post(CHAT, json=GOOD)
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
        assert "shutting down" in refused.json()["error"]["message"]
        thread.join(10)
        assert answers[0].status_code == 200
        assert "9 " in answers[0].text
        assert "length" not in answers[0].text
        assert server.process.wait(5) == 0
        assert server.read_line() == "closed"


def test_an_idle_server_ends_at_once() -> None:
    with _serving(delay=0, patience=30) as server:
        server.client.get("/health")  # and keeps its connection open
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(5) == 0
        assert time.monotonic() - started < 2


@pytest.mark.parametrize("stream", [False, True])
def test_patience_ends(stream: bool) -> None:
    with _serving(delay=5, patience=0.3) as server:
        thread, answers = server.ask(stream=stream)
        server.process.send_signal(signal.SIGTERM)
        thread.join(5)
        assert "stopped before the answer was done" in answers[0].text
        assert answers[0].status_code == (200 if stream else 503)
        assert server.process.wait(5) == 0


def test_a_prompt_that_takes_for_ever_does_not_keep_the_process() -> None:
    with _serving(delay=0, patience=0.3, submit=60) as server:
        thread, answers = server.ask(stream=True, wait=False)
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        assert server.read_line() == "draining 1"
        thread.join(5)
        assert answers[0].status_code == 503
        assert server.process.wait(5) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_at_once(number: signal.Signals) -> None:
    with _serving(delay=5, patience=60) as server, server.another_client() as other:
        sender = threading.Thread(target=_ignore_end, args=(other,))
        sender.start()
        server.wait_until_busy()
        server.process.send_signal(signal.SIGINT)
        assert server.read_line() == "draining 1"
        os.kill(server.process.pid, number)
        assert server.process.wait(2) == 128 + number
        sender.join(5)


def _ignore_end(client: httpx.Client) -> None:
    with suppress(httpx.HTTPError):
        client.post(CHAT, json=GOOD)


def test_a_lost_engine_is_told_and_ends_the_process_with_a_code_of_its_own() -> None:
    with _serving(delay=0.1, patience=5) as server:
        assert server.client.get("/health").status_code == 200
        server.process.send_signal(signal.SIGUSR1)
        while (health := server.client.get("/health")).status_code == 200:
            time.sleep(0.05)
        assert health.status_code == 503
        while (answer := server.client.post(CHAT, json=GOOD)).status_code == 200:
            time.sleep(0.05)
        assert answer.status_code == 503
        assert server.process.wait(15) == 9
