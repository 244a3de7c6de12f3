"""`POST /api/{quantize,finetune,dataset}/push`: to a Hub that takes uploads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from commands.serve.sending import Uploads
from core.errors import EngineStopped, UploadFailed
from core.jobs.store import JobStore
from tests.caches import add_model
from tests.commands.serve.home import Home
from tests.core.upload.conftest import MODEL, adapter_files, fill
from tests.core.upload.hub import UploadHub
from tests.processes import wait_until

SECRET = "hf_secretsecretsecret"
REPO = "me/name"
ROW = b'{"text": "a"}\n'


@pytest.fixture
def hub() -> Iterator[UploadHub]:
    with UploadHub() as hub:
        hub.account(SECRET, "me")
        yield hub


@pytest.fixture
def home(tmp_path: Path, hub: UploadHub) -> Iterator[Home]:
    with Home.opened(tmp_path / "home", hub.url, HF_TOKEN=SECRET) as opened:
        yield opened


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return fill(tmp_path / "model", MODEL)


def _refused(home: Home, path: str, **body: Any) -> str:
    answer = home.client.post(path, json={"repo_id": REPO, **body})
    assert answer.status_code == 400, answer.text
    assert answer.json()["ok"] is False
    said: str = answer.json()["error"]
    return said


def test_a_folder_goes_to_a_private_repository(home: Home, hub: UploadHub, model: Path) -> None:
    keys = {".git/config": b"x", ".env": b"x", "id_rsa": b"x", "secrets.json": b"{}", "a.pem": b"x"}
    fill(model, keys)
    body = {"repo_id": REPO, "source_path": str(model)}
    assert home.post("/api/quantize/push", body) == {"ok": True, "url": f"{hub.url}/{REPO}"}
    assert set(hub.files(REPO)) == {*MODEL, "README.md", ".gitattributes"}
    assert hub.repos[REPO].private


def test_public_only_where_that_is_said(home: Home, hub: UploadHub, model: Path) -> None:
    body = {"repo_id": REPO, "source_path": str(model), "private": False}
    home.post("/api/finetune/push", body)
    assert not hub.repos[REPO].private
    told = _refused(home, "/api/finetune/push", source_path=str(model))
    assert "is there already and is public" in told
    assert "private" in _refused(home, "/api/quantize/push", source_path="/x", private="no")


def test_the_output_of_a_job(home: Home, hub: UploadHub, tmp_path: Path) -> None:
    adapter = fill(tmp_path / "adapter", adapter_files())
    store = JobStore(home.paths.jobs_folder)
    job = store.add("finetune", {})
    told = _refused(home, "/api/finetune/push", job_id=job.id)
    assert told == f"Job {job.id} has no output: it is queued."
    store.save(replace(store.claim(job.id), status="done", output_path=str(adapter)))
    home.post("/api/finetune/push", {"repo_id": REPO, "job_id": job.id})
    assert "adapters.safetensors" in hub.files(REPO)
    assert _refused(home, "/api/finetune/push", job_id="1a2b") == "There is no job 1a2b."


def test_data_go_to_a_repository_of_data(home: Home, hub: UploadHub, tmp_path: Path) -> None:
    for name, files in (("top", {"train.jsonl": ROW}), ("inner", {"data/train.jsonl": ROW})):
        folder = fill(tmp_path / name, files)
        answer = home.post(
            "/api/dataset/push", {"repo_id": f"me/{name}", "source_path": str(folder)}
        )
        assert answer["url"] == f"{hub.url}/datasets/me/{name}"
        assert set(files) <= set(hub.files(f"datasets:me/{name}"))


def test_nothing_but_models_and_data_is_pushed(home: Home, hub: UploadHub, model: Path) -> None:
    place = Path(home.environ["HOME"])
    fill(place, {"notes.csv": b"a,b\n1,2\n", "letters/private.txt": b"x"})
    fill(place / "work", {"project/deep/rows.csv": b"a,b\n1,2\n", "diary.txt": b"x"})
    fill(place / "empty", {"diary.txt": b"x"})
    for path, source, said in (
        ("dataset", place, "holds more than a data set"),
        ("dataset", place.parent, "holds more than a data set"),
        ("dataset", place / "work", "holds more than a data set"),
        ("dataset", place / "empty", "holds neither a model"),
        ("dataset", model, "is not a data set"),
        ("quantize", place / "notes.csv", "is not a model or an adapter"),
        ("quantize", place / "letters" / "private.txt", "is a file"),
        ("quantize", place / "none", "does not exist"),
        ("finetune", "", "source_path required"),
    ):
        assert said in _refused(home, f"/api/{path}/push", source_path=str(source)), source
    assert hub.repos == {}


def test_a_link_out_of_the_folder_is_not_followed(
    home: Home, hub: UploadHub, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "diary.txt").write_text("private")
    (model / "notes.txt").symlink_to(tmp_path / "diary.txt")
    said = _refused(home, "/api/quantize/push", source_path=str(model))
    assert "notes.txt is a link that leads out of" in said
    assert hub.repos == {}


def test_a_snapshot_of_the_cache(home: Home, hub: UploadHub) -> None:
    files = {name: data for name, data in MODEL.items() if name != "config.json"}
    snapshot = add_model(
        home.paths.hub_cache, "org/name", config=MODEL["config.json"], weights=files
    )
    home.post("/api/quantize/push", {"repo_id": REPO, "source_path": str(snapshot)})
    assert set(MODEL) <= set(hub.files(REPO))


def test_what_is_missing(home: Home, hub: UploadHub, model: Path) -> None:
    answer = home.client.post("/api/quantize/push", json={"source_path": str(model)})
    assert (answer.status_code, answer.json()["error"]) == (400, "repo_id required")
    told = _refused(home, "/api/quantize/push", repo_id="no repository", source_path=str(model))
    assert "is no repository to upload to" in told


def test_no_token(hub: UploadHub, tmp_path: Path, model: Path) -> None:
    with Home.opened(tmp_path / "other", hub.url) as home:
        said = _refused(home, "/api/quantize/push", source_path=str(model))
    assert "no Hugging Face token" in said


def test_a_hub_that_refuses(home: Home, hub: UploadHub, model: Path) -> None:
    said = _refused(home, "/api/quantize/push", repo_id="others/name", source_path=str(model))
    assert SECRET not in said
    assert hub.repos == {}


def test_who_hangs_up_ends_the_upload(home: Home, hub: UploadHub, model: Path) -> None:
    hub.slow = 0.2
    body = {"repo_id": REPO, "source_path": str(model)}
    with pytest.raises(httpx.ReadTimeout):
        home.client.post("/api/quantize/push", json=body, timeout=1.0)
    home.options.uploads.wait(10)
    assert home.options.uploads.running == 0
    assert hub.commits == []


def test_the_end_of_the_server_ends_uploads(home: Home, hub: UploadHub, model: Path) -> None:
    hub.slow = 0.2
    uploads, errors = Uploads(), []

    def upload() -> None:
        try:
            uploads.run(
                REPO,
                lambda: model,
                repo_type="model",
                private=True,
                paths=home.paths,
                environ=home.environ,
                cancel=Event(),
            )
        except UploadFailed as problem:
            errors.append(problem)

    thread = Thread(target=upload)
    thread.start()
    wait_until(lambda: hub.received)
    uploads.cancel()
    uploads.wait(10)
    thread.join(10)
    assert [str(error) for error in errors] == [f"The upload to {REPO} was ended."]
    with pytest.raises(EngineStopped):
        uploads.run(
            REPO,
            lambda: model,
            repo_type="model",
            private=True,
            paths=home.paths,
            environ=home.environ,
            cancel=Event(),
        )
