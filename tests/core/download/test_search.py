"""Looking for models on the Hub."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from core.download.search import FoundModel, search_models
from core.errors import DownloadFailed, UsageProblem
from core.paths import Paths
from tests.fakehub import FakeHub

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def _search(address: str, tmp_path: Path, *, seconds: float = 5.0, **more: str) -> list[FoundModel]:
    environ = {"HOME": str(tmp_path), "HF_ENDPOINT": address, **more}
    paths = Paths.from_environ(environ)
    return search_models("x", paths=paths, environ=environ, seconds=seconds)


@contextmanager
def _answering(answer: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of a Hub that answers each connection with a function, and what came."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection = listener.accept()[0]
                    with connection, suppress(OSError):
                        asked.append(connection.recv(65536))
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def test_the_question(tmp_path: Path) -> None:
    body = b'[{"id": "org/name", "downloads": 3, "likes": 1, "tags": ["mlx"]}]'
    with _answering(
        lambda c: c.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    ) as (address, asked):
        assert _search(address, tmp_path) == [FoundModel(repo_id="org/name", downloads=3, likes=1)]
    line = asked[0].split(b"\r\n")[0].decode()
    assert line.startswith("GET /api/models?search=x&filter=mlx&sort=downloads&direction=-1&limit=")
    assert b"authorization" not in asked[0].lower()


def test_a_hub_with_a_path(tmp_path: Path, hub: FakeHub) -> None:
    hub.raw["/mirror/api/models"] = b"[]"
    assert _search(f"{hub.url}/mirror/", tmp_path) == []


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as hub:
        yield hub


def _trickle(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1\r\n \r\n")
        time.sleep(0.05)


def _flood(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"100000\r\n" + b" " * 0x100000 + b"\r\n")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda _c: time.sleep(2), "did not answer within 0.5 seconds"),
        (_trickle, "did not answer within 0.5 seconds"),
        (lambda c: c.sendall(b"nonsense\r\n\r\n"), "cannot be reached"),
        (lambda _c: None, "cannot be reached"),
        (
            lambda c: c.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\n\r\n"),
            "status 302",
        ),
    ],
)
def test_answers_that_are_none(
    tmp_path: Path, answer: Callable[[socket.socket], None], told: str
) -> None:
    with (
        _answering(answer) as (address, _),
        pytest.raises(DownloadFailed) as refused,
    ):
        _search(address, tmp_path, seconds=0.5)
    assert told in refused.value.message
    assert refused.value.hint


def test_an_answer_without_end(tmp_path: Path) -> None:
    with (
        _answering(_flood) as (address, _),
        pytest.raises(DownloadFailed, match="has no end"),
    ):
        _search(address, tmp_path, seconds=30)


def test_an_address_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no address"):
        _search("nowhere", tmp_path)
