"""A quantization as a job: refused or started over HTTP, in a process of its own, cancelled."""

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
from tests.core.jobs.desk import Desk, events_of
from tests.processes import wait_until
from tests.tiny import llama_config, make_model

__all__ = ["desk"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "model")


@pytest.fixture
def client(desk: Desk) -> Iterator[httpx.Client]:
    environ = {**desk.environ, "MLXBUN_BLAS": "off"}
    with (
        live_server(FakeEngine(), options=serve_options(environ)) as base,
        httpx.Client(base_url=base, timeout=30, trust_env=False) as client,
    ):
        yield client


def _submit(client: httpx.Client, model: Path, **fields: Any) -> dict[str, Any]:
    body = {"model_id": str(model), "proof": False, **fields}
    answer = client.post("/api/quantize/submit", json=body)
    assert answer.status_code == 200, answer.text
    started: dict[str, Any] = answer.json()
    return started


def test_a_quantization_makes_a_model(client: httpx.Client, desk: Desk, model: Path) -> None:
    reference = {"bits": 4, "group_size": 32, "rotate_weights": False, "n_calibration": 0}
    started = _submit(client, model, **reference)
    job = desk.end(desk.job(started["job_id"]))
    assert job.status == "done", (job.error, events_of(job))
    assert job.output_path == started["output_dir"]
    assert Path(started["output_dir"], "model.safetensors").is_file()
    events = events_of(job)
    shares = [event["progress"] for event in events if event["type"] == "stage"]
    assert shares == sorted(shares)
    summary = events[-1]["summary"]
    assert summary["repo_id"] == "local/model-OptiQ-4bit-g32"
    assert summary["bits_per_weight"] > 4
    listed = client.get("/library").json()["models"]
    assert [row["repo_id"] for row in listed] == ["local/model-OptiQ-4bit-g32"]


def test_the_width_is_chosen_before_there_is_a_job(
    client: httpx.Client, desk: Desk, model: Path
) -> None:
    started = _submit(client, model, fit="6GB")
    assert "OptiQ-8bit" in started["output_dir"]
    job = desk.end(desk.job(started["job_id"]))
    config = json.loads(job.config_json)
    assert (config["bits"], "fit" in config) == (8, False)
    assert job.output_path == started["output_dir"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"bits": 7}, "does not support 7 bits"),
        ({"bits": "many"}, "bits must be a whole number"),
        ({"mode": "mxfp4", "bits": 8}, "does not support 8 bits"),
        ({"target_bpw": 12, "candidate_bits": [2, 3, 4, 8]}, "out of reach"),
        ({"target_bpw": 4, "candidate_bits": [7]}, "candidate_bits must be one of"),
        ({"target_bpw": 4.5, "reference": "fp32"}, "reference must be bf16 or one of"),
        ({"target_bpw": 4.5, "calibration_mix": "/none.jsonl"}, "none.jsonl"),
        ({"group_size": 128, "model_id": "/none"}, "There is no folder /none"),
        ({"of_tomorrow": 1}, "A quantization has no field 'of_tomorrow'"),
        ({"dequantize": True, "proof": True}, "is not quantized"),
        ({"min_agreement": 2, "proof": True}, "min_agreement must be a number from 0 to 1"),
        ({"fit": "10kB"}, "fits 10 kB at no width"),
    ],
)
def test_bad_options_make_no_job(
    client: httpx.Client, desk: Desk, model: Path, fields: dict[str, Any], said: str
) -> None:
    body = {"model_id": str(model), "proof": False, **fields}
    answer = client.post("/api/quantize/submit", json=body)
    assert (answer.status_code, answer.json()["ok"]) == (400, False)
    assert said in answer.json()["error"]
    assert desk.store.recent() == []


def test_one_is_cancelled_and_the_next_one_resumes(
    client: httpx.Client, desk: Desk, tmp_path: Path
) -> None:
    config = llama_config(num_hidden_layers=24, hidden_size=512, intermediate_size=2048)
    deep = make_model(tmp_path / "deep", config=config)
    started = _submit(client, deep)
    job = desk.job(started["job_id"])
    wait_until(lambda: any(event.get("stage") == "packing" for event in events_of(job)))
    ended = cancel_job(desk.store, job.id, patience=30)
    assert (ended.status, ended.error) == ("failed", "cancelled")
    assert not Path(started["output_dir"]).exists()
    again = _submit(client, deep)
    assert again["output_dir"] == started["output_dir"]
    ended = desk.end(desk.job(again["job_id"]))
    assert ended.status == "done", ended.error
    told = [event.get("line", "") for event in events_of(ended)]
    assert any(line.startswith("Resuming an interrupted run") for line in told)


def test_it_waits_for_the_accelerator(client: httpx.Client, desk: Desk, model: Path) -> None:
    with hold_lease(desk.paths.lease_file, what="mlxbun train", on_wait=None):
        job_id = _submit(client, model)["job_id"]
        wait_until(lambda: (desk.job(job_id).message or "").startswith("Waits for mlxbun train"))
    assert desk.end(desk.job(job_id)).status == "done"
