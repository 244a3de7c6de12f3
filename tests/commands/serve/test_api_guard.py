"""The routes under /api against strangers: pages of other sites, other machines, odd bodies."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from commands.serve.app import create_app
from core.settings import Settings
from tests.caches import add_model
from tests.commands.serve.fake_engine import FakeEngine
from tests.commands.serve.home import Home
from tests.commands.serve.live import serve_options
from tests.fakehub import FakeHub, weights
from tests.processes import environ_of

ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/api/hub/local", None),
    ("GET", "/api/hub/search?q=x", None),
    ("POST", "/api/hub/download", {"repo": "org/name"}),
    ("POST", "/api/hub/serve", {"model": "org/name"}),
    ("GET", "/api/gc/plan", None),
    ("POST", "/api/gc/execute", {"yes": True}),
    ("GET", "/api/settings/hf-token", None),
    ("POST", "/api/settings/hf-token", {"token": "hf_attackers"}),
    ("DELETE", "/api/settings/hf-token", None),
    ("POST", "/api/model/resolve-folder", {"folder_name": "x"}),
    ("POST", "/api/quantize/resolve-folder", {"folder_name": "x"}),
    ("GET", "/api/sessions/search?q=x", None),
    ("GET", "/api/sessions/export?path=x.jsonl", None),
    ("GET", "/api/jobs", None),
    ("GET", "/api/jobs/1a2b3c4d", None),
    ("GET", "/api/jobs/1a2b3c4d/stream", None),
    ("POST", "/api/finetune/submit", {"model_dir": "/m", "data_dir": "/d"}),
    ("POST", "/api/finetune/inspect-dataset", {"path": "/d"}),
    ("POST", "/api/quantize/submit", {"model_id": "/m"}),
    ("POST", "/api/quantize/inspect", {"model_id": "/m"}),
    ("POST", "/api/quantize/push", {"repo_id": "a/b", "source_path": "/m"}),
    ("POST", "/api/finetune/push", {"repo_id": "a/b", "source_path": "/m"}),
    ("POST", "/api/dataset/push", {"repo_id": "a/b", "source_path": "/m"}),
    ("GET", "/api/memory/status", None),
    ("GET", "/api/memory/list", None),
    ("GET", "/api/memory/search?q=x", None),
    ("GET", "/api/memory/article?name=x", None),
    ("GET", "/api/memory/links?name=x", None),
    ("GET", "/api/memory/history?name=x", None),
    ("GET", "/api/memory/diff?name=x&rev=abcd", None),
    ("POST", "/api/memory/init", {}),
    ("GET", "/v1/memory/synthesize", None),
    ("GET", "/v1/memory/synthesize?dry=1", None),
]
FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:3000"},
    {"host": "evil.example"},
    {"x-forwarded-for": "203.0.113.9"},
]


@pytest.fixture
def filled(home: Home, hub: FakeHub) -> Home:
    """A home with a token, something to tidy up, and something to download."""
    hub.add("org/name", {"config.json": b"{}", "model.safetensors": weights(1000)})
    home.paths.token_file.parent.mkdir(parents=True)
    home.paths.token_file.write_text("hf_mine")
    add_model(home.paths.hub_cache, "org/old", commit="a" * 40, ref=None)
    add_model(home.paths.hub_cache, "org/old", commit="b" * 40)
    return home


def _everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("headers", FOREIGN, ids=lambda headers: "-".join(headers.values()))
def test_strangers_change_nothing(filled: Home, hub: FakeHub, headers: dict[str, str]) -> None:
    before = _everything(Path(filled.environ["HOME"]))
    for method, path, body in ROUTES:
        answer = filled.client.request(method, path, json=body, headers=headers)
        assert answer.status_code == 403, path
        problem = answer.json()
        assert set(problem) == {"ok", "error"}
        assert problem["ok"] is False
        assert not any(name.startswith("access-control") for name in answer.headers)
    assert _everything(Path(filled.environ["HOME"])) == before
    assert hub.log == []


@pytest.mark.parametrize(("method", "path", "_body"), ROUTES)
def test_a_browser_that_asks_first_is_not_encouraged(
    filled: Home, method: str, path: str, _body: Any
) -> None:
    asked = {
        "origin": "https://evil.example",
        "access-control-request-method": method,
        "access-control-request-headers": "content-type",
    }
    answer = filled.client.options(path, headers=asked)
    assert answer.status_code == 404
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_body_has_to_say_that_it_is_json(filled: Home, kind: str) -> None:
    before = _everything(Path(filled.environ["HOME"]))
    for method, path, body in ROUTES:
        if method == "POST":
            answer = filled.client.post(
                path, content=json.dumps(body), headers={"content-type": kind}
            )
            assert answer.status_code == 415, path
            assert "application/json" in answer.json()["error"]
    assert _everything(Path(filled.environ["HOME"])) == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"{}",
        b'{"repo": null, "model": null, "token": null, "yes": null}',
        b'{"repo": 5, "model": 5, "token": 5, "yes": 1, "model_dir": 5, "data_dir": "/d"}',
        b'{"repo": ["org/name"], "model": {}, "token": [], "yes": "true"}',
        b'{"repo": " ", "model": "", "token": "\\n", "yes": false}',
    ],
    ids=lambda body: repr(body[:20]),
)
def test_bodies_that_ask_for_nothing(filled: Home, body: bytes) -> None:
    expected = {
        "/api/hub/download": 'missing "repo"',
        "/api/hub/serve": 'missing "model"',
        "/api/settings/hf-token": "token required",
        "/api/gc/execute": 'pass {"yes": true} to confirm deletion',
        "/api/finetune/submit": "model_dir and data_dir required",
    }
    before = _everything(Path(filled.environ["HOME"]))
    for path, told in expected.items():
        answer = filled.client.post(
            path, content=body, headers={"content-type": "application/json; charset=utf-8"}
        )
        assert answer.status_code == 400, path
        assert answer.json() == {"ok": False, "error": told}
    assert _everything(Path(filled.environ["HOME"])) == before


def test_a_body_beyond_all_measure(filled: Home) -> None:
    for path in ("/api/hub/download", "/api/gc/execute", "/api/model/resolve-folder"):
        body = json.dumps({"repo": "x" * 1_100_000, "yes": True, "folder_name": "x"})
        answer = filled.client.post(
            path, content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 413
        problem = answer.json()
        assert (problem["ok"], "1 MB" in problem["error"]) == (False, True)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/gc/plan"),
        ("GET", "/api/gc/execute"),
        ("PUT", "/api/settings/hf-token"),
        ("GET", "/api/hub/download"),
        ("POST", "/api/jobs"),
        ("DELETE", "/api/jobs/1a2b3c4d"),
        ("GET", "/api/finetune/submit"),
        ("GET", "/api/finetune"),
        ("GET", "/api"),
        ("GET", "/api/hub"),
        ("GET", "/api/hub/local/x"),
        ("POST", "/library"),
        ("DELETE", "/downloads"),
        ("POST", "/fit"),
    ],
)
def test_wrong_methods_and_paths(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code == 404
    assert answer.content == b'{"error":{"message":"not found"}}'


def _asked_from(client: str, environ: dict[str, str], path: str) -> httpx.Response:
    app: Any = create_app(FakeEngine(), Settings(host="0.0.0.0"), serve_options(environ))

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, client=(client, 5000))
        async with httpx.AsyncClient(transport=transport, base_url="http://10.0.0.5:8080") as http:
            return await http.get(path)

    return asyncio.run(ask())


def test_other_machines_may_look_but_not_touch(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    for path in ("/library", "/downloads", "/v1/models"):
        assert _asked_from("10.0.0.7", environ, path).status_code == 200
    answer = _asked_from("10.0.0.7", environ, "/api/gc/plan")
    assert answer.status_code == 403
    assert "machine that the server runs on" in answer.json()["error"]
    assert _asked_from("127.0.0.1", environ, "/api/gc/plan").status_code == 200


def test_a_server_that_ends_takes_no_orders(filled: Home) -> None:
    before = _everything(Path(filled.environ["HOME"]))
    filled.options.drain.begin()
    for method, path, body in ROUTES:
        answer = filled.client.request(method, path, json=body)
        assert answer.status_code == 503, path
        problem = answer.json()
        assert (problem["ok"], "shutting down" in problem["error"]) == (False, True)
    assert _everything(Path(filled.environ["HOME"])) == before
