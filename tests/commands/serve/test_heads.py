"""HEAD where there is GET, and a request id on every answer."""

from __future__ import annotations

import re
import socket

import httpx
import msgspec
import pytest

from commands.serve.app import _API, _OPEN
from core.errors import EngineFailed, QueueFull
from tests.commands.serve.fake_engine import FakeEngine, Script
from tests.commands.serve.home import Home

GETS = sorted(
    path for handler in (*_OPEN, *_API) if handler.http_methods == {"GET"} for path in handler.paths
)
POSTS = sorted(
    path
    for handler in (*_OPEN, *_API)
    if handler.http_methods == {"POST"}
    for path in handler.paths
    if path not in GETS
)
CHAT = "/v1/chat/completions"
GOOD = {"messages": [{"role": "user", "content": "hi"}]}
OURS = re.compile(r"req_[0-9a-f]{32}")


def _filled(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "1a2b3c4d", path)


@pytest.mark.parametrize("path", GETS)
def test_a_head_answers_where_a_get_does(client: httpx.Client, path: str) -> None:
    answer = client.head(_filled(path))
    assert answer.status_code in (200, 302)
    assert "content-length" not in answer.headers
    assert answer.content == b""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/v1/models", "application/json"),
        ("/schema/openapi.json", "application/json"),
        ("/api/jobs/1a2b3c4d/stream", "text/event-stream; charset=utf-8"),
    ],
)
def test_a_head_tells_what_a_get_would_bring(client: httpx.Client, path: str, kind: str) -> None:
    assert client.head(path).headers["content-type"] == kind
    with client.stream("GET", path) as answer:
        assert answer.headers["content-type"] == kind


@pytest.mark.parametrize("path", [*POSTS, "/nowhere"])
def test_a_head_is_unknown_elsewhere(client: httpx.Client, path: str) -> None:
    answer = client.head(path)
    assert (answer.status_code, answer.content) == (404, b"")


def test_a_head_does_not_run_what_a_get_does(home: Home) -> None:
    def read() -> dict[str, bool]:
        raise AssertionError("the list was read")

    object.__setattr__(home.options, "other_models", read)
    assert home.client.head("/v1/models").status_code == 200
    assert home.client.get("/v1/models").status_code == 500


def test_a_head_of_health_is_its_status(client: httpx.Client, engine: FakeEngine) -> None:
    assert client.head("/health").status_code == 200
    engine.alive = False
    assert client.head("/health").status_code == 503


def test_heads_under_api_are_guarded_alike(client: httpx.Client) -> None:
    answer = client.head("/api/jobs", headers={"host": "evil.example"})
    assert (answer.status_code, answer.content) == (403, b"")


def test_a_head_while_the_server_drains(home: Home) -> None:
    home.options.drain.begin()
    assert home.client.head("/v1/models").status_code == 503


@pytest.mark.parametrize("path", [*GETS, "/nowhere", CHAT])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
def test_every_answer_has_an_id(client: httpx.Client, method: str, path: str) -> None:
    with client.stream(method, _filled(path)) as answer:
        (found,) = answer.headers.get_list("x-request-id")
    assert OURS.fullmatch(found)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "script",
    [
        Script(),
        Script(refuse=QueueFull("Full.")),
        Script(refuse=RuntimeError("A defect.")),
        Script(error=EngineFailed("It broke.")),
    ],
)
def test_answers_and_errors_have_one(
    client: httpx.Client, engine: FakeEngine, script: Script, stream: bool
) -> None:
    engine.script = script
    found = {
        client.post(CHAT, json={**GOOD, "stream": stream}).headers["x-request-id"] for _ in "ab"
    }
    assert len(found) == 2
    assert all(map(OURS.fullmatch, found))


def test_a_clients_own_id_comes_back(client: httpx.Client) -> None:
    for path in ("/v1/models", "/nowhere"):
        answer = client.get(path, headers={"X-Request-ID": "mine-1/2"})
        assert answer.headers["x-request-id"] == "mine-1/2"
    assert client.get("/health", headers={"x-request-id": "a" * 128}).headers[
        "x-request-id"
    ] == "a" * 128  # fmt: skip


@pytest.mark.parametrize(
    "sent", [b"", b"a" * 129, b"two words", b"tab\tin", b"\xff", b"caf\xc3\xa9"]
)
def test_an_id_that_no_log_takes_is_replaced(base: str, sent: bytes) -> None:
    answer = httpx.get(f"{base}/health", headers={b"x-request-id": sent}, trust_env=False)
    assert OURS.fullmatch(answer.headers["x-request-id"])


def test_two_ids_are_none(base: str) -> None:
    headers = [("x-request-id", "one"), ("x-request-id", "two")]
    answer = httpx.get(f"{base}/health", headers=headers, trust_env=False)
    assert OURS.fullmatch(answer.headers["x-request-id"])


def test_bytes_that_are_not_http_are_answered_with_an_id(base: str) -> None:
    url = httpx.URL(base)
    with socket.create_connection((url.host, url.port or 0), timeout=20) as client:
        client.sendall(b"NOT HTTP\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(4096), b"")).decode()
    head, _, body = answer.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 400 Bad Request\r\n")
    (found,) = re.findall(r"^x-request-id: (\S+)$", head.replace("\r", ""), re.MULTILINE)
    assert OURS.fullmatch(found)
    assert msgspec.json.decode(body)["error"]["type"] == "invalid_request_error"
