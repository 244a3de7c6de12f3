"""A training as a job: started over HTTP, in a process of its own, followed and cancelled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from core.jobs.cancel import cancel_job
from core.jobs.lease import hold_lease
from tests.commands.serve.fake_engine import FakeEngine
from tests.commands.serve.live import live_server, serve_options
from tests.core.jobs.conftest import desk
from tests.core.jobs.desk import Desk, events_of, types_of
from tests.core.train.runs import config_of, sums, write_rows
from tests.processes import wait_until
from tests.tiny import make_model

__all__ = ["desk"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_model(tmp_path / "model")
    write_rows(tmp_path / "data", sums(20))
    return tmp_path


@pytest.fixture
def client(desk: Desk) -> Iterator[httpx.Client]:
    environ = {**desk.environ, "MLXBUN_BLAS": "off"}
    with (
        live_server(FakeEngine(), options=serve_options(environ)) as base,
        httpx.Client(base_url=base, timeout=30, trust_env=False) as client,
    ):
        yield client


def _submit(client: httpx.Client, folder: Path, **fields: Any) -> dict[str, Any]:
    config = config_of(folder)
    body = {
        "model_dir": config.model_dir, "data_dir": config.data_dir, "rank": 4, "batch_size": 2,
        "iters": 4, **fields,
    }  # fmt: skip
    answer = client.post("/api/finetune/submit", json=body)
    assert answer.status_code == 200, answer.text
    started: dict[str, Any] = answer.json()
    return started


def test_a_finetuning_makes_an_adapter(client: httpx.Client, desk: Desk, folder: Path) -> None:
    started = _submit(client, folder)
    job = desk.end(desk.job(started["job_id"]))
    assert job.status == "done", (job.error, events_of(job))
    assert job.output_path == started["adapter_path"]
    assert (Path(started["adapter_path"]) / "adapters.safetensors").is_file()
    assert Path(started["adapter_path"]).parent == desk.paths.adapters_folder
    events = events_of(job)
    steps = [event["step"] for event in events if event.get("kind") == "train"]
    assert steps == [1, 2, 3, 4]
    stages = {event["stage"] for event in events if event["type"] == "stage"}
    assert {"loading", "data"} <= stages
    assert events[-1]["summary"]["ended"] == "done"
    assert json.loads(job.config_json)["iters"] == 4


def test_one_is_cancelled_and_keeps_a_checkpoint(
    client: httpx.Client, desk: Desk, folder: Path
) -> None:
    started = _submit(client, folder, iters=100_000, adapter_path=str(folder / "out"))
    job = desk.job(started["job_id"])
    wait_until(lambda: types_of(job).count("metric") > 3)
    assert desk.job(job.id).status == "running"
    ended = cancel_job(desk.store, job.id, patience=30)
    assert (ended.status, ended.error) == ("failed", "cancelled")
    assert any("checkpoint" in event.get("line", "") for event in events_of(ended))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"sft_scope": "sideways"}, "sft_scope must be "),
        ({"rank": "many"}, "rank must be "),
        ({"of_tomorrow": 1}, "A training has no field 'of_tomorrow'"),
        ({"data_dir": "/no/such/data"}, "/no/such/data/train.jsonl not found"),
        ({"model_dir": "/no/such/model"}, "There is no folder /no/such/model"),
        ({"adapter_path": "x" * 5000}, "The adapter cannot be written to xxx"),
        ({"warm_start_adapter": "nowhere"}, "There is no adapter nowhere"),
    ],
)
def test_what_is_wrong_is_the_jobs_error(
    client: httpx.Client, desk: Desk, folder: Path, fields: dict[str, Any], told: str
) -> None:
    with hold_lease(desk.paths.lease_file, what="the test", on_wait=None):
        job = desk.job(_submit(client, folder, **fields)["job_id"])  # nothing that it waits for
    assert job.status == "failed"
    assert job.error is not None
    assert job.error.startswith(told)
    assert events_of(job)[-1]["error"] == job.error
