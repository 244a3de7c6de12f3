"""The routes of the library in a real `mlxbun serve`: a model in memory, a Hub, a shell."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.caches import add_model
from tests.fakehub import FakeHub, weights
from tests.processes import environ_of, mlxbun, serving, wait_until
from tests.tiny import make_model

OLD, MAIN = "a" * 40, "b" * 40
SECRET = "hf_" + "s" * 30
FILES = {"config.json": b'{"model_type": "llama"}', "model.safetensors": weights(100_000)}


def _add(hub_cache: Path, made: Path, commit: str, ref: str | None) -> Path:
    files = {path.name: path.read_bytes() for path in made.iterdir() if path.name != "config.json"}
    config = (made / "config.json").read_bytes()
    return add_model(hub_cache, "acme/tiny", commit=commit, config=config, weights=files, ref=ref)


def test_a_server_and_its_library(tmp_path: Path) -> None:
    home = tmp_path / "home"
    cache = home / ".cache" / "huggingface" / "hub"
    served = _add(cache, make_model(tmp_path / "tiny", bits=4), OLD, None)
    _add(cache, make_model(tmp_path / "newer"), MAIN, "main")
    log = tmp_path / "stderr"
    with FakeHub() as hub:
        hub.add("org/name", FILES).private = True
        hub.tokens.add(SECRET)
        environ = environ_of(home, HF_ENDPOINT=hub.url)
        with (
            serving(f"acme/tiny@{OLD}", environ=environ, log=log) as server,
            httpx.Client(base_url=server.url, trust_env=False, timeout=30) as client,
        ):
            (row,) = client.get("/library").json()["models"]
            assert (row["repo_id"], row["serving"]) == ("acme/tiny", False)
            assert row["assessment"]["fits"] is True
            fit, stats = server.get("/fit"), server.get("/stats")
            assert fit["context_tokens"] == stats["admission"]["max_safe_context"]
            assert fit["report"]["usable_bytes"] == stats["admission"]["usable_bytes"]
            assert fit["report"]["fits"] is True

            assert client.get("/api/gc/plan").json()["superseded"] == []
            done = client.post("/api/gc/execute", json={"yes": True}).json()
            assert (done["ok"], done["snapshots"]) == (True, 0)
            assert (served / "model.safetensors").is_file()

            assert client.post("/api/hub/download", json={"repo": "org/name"}).status_code == 404
            assert client.post("/api/settings/hf-token", json={"token": SECRET}).is_success
            assert client.post("/api/hub/download", json={"repo": "org/name"}).is_success
            wait_until(lambda: server.get("/downloads")["downloads"][-1]["state"] == "done")
            assert "org/name" in mlxbun("ls", environ=environ).stdout
            assert server.ask("hello", max_tokens=2)["usage"]["completion_tokens"] == 2
            assert server.stop() == 0
        assert SECRET not in server.said()
    assert mlxbun("gc", "--yes", environ=environ).returncode == 0
    assert not served.exists()
