"""`POST /api/quantize/submit` and `/inspect`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from commands.serve.serving import ServeOptions
from commands.serve.wire.quantize import QuantizeSubmit
from core.errors import BadModelFiles, DoesNotFit, NotFound, UsageProblem
from core.quantize.recipe import TABLE
from core.quantize.runner import Checked
from tests.caches import add_model, safetensors
from tests.commands.serve.fake_engine import FakeEngine
from tests.commands.serve.home import Home
from tests.commands.serve.live import live_server, serve_options
from tests.core.jobs.conftest import desk
from tests.core.jobs.desk import Desk, events_of, job_command

__all__ = ["desk"]

TENSORS = {f"model.layers.{n}.mlp.up_proj.weight": ("F16", (8, 64)) for n in range(2)}


@contextmanager
def _server(desk: Desk, check: Any, work: str = "quick") -> Iterator[httpx.Client]:
    options = replace(
        serve_options(desk.environ, keep_alive=0.1),
        quantize_command=tuple(job_command(work)),
        quantize_check=check,
    )
    with (
        live_server(FakeEngine(), options=options) as base,
        httpx.Client(base_url=base, timeout=30, trust_env=False) as client,
    ):
        yield client


def _taken(fields: dict[str, Any], _options: ServeOptions) -> Checked:
    return Checked(config=fields, output_dir="/cache/models--org--name-OptiQ-4bit")


def test_a_quantization_from_its_start_to_its_end(desk: Desk) -> None:
    fields = {
        "model_id": "org/name", "bits": 4, "group_size": 64, "candidate_bits": [2, 3, 4, 8],
        "rotate_weights": False, "rotation_seed": 42, "embeddings": True,
    }  # fmt: skip
    with _server(desk, _taken) as client:
        answer = client.post("/api/quantize/submit", json=fields)
        assert answer.status_code == 200, answer.text
        started = answer.json()
        assert list(started) == ["ok", "job_id", "output_dir"]
        assert started["output_dir"] == "/cache/models--org--name-OptiQ-4bit"
        job = desk.end(desk.job(started["job_id"]))
        row = client.get(f"/api/jobs/{job.id}").json()["job"]
    assert (row["kind"], row["status"]) == ("quantize", "done")
    embeddings = fields.pop("embeddings")
    assert json.loads(row["config_json"]) == {**fields, "quantize_embeddings": embeddings}
    assert events_of(job)[-1]["type"] == "done"


@pytest.mark.parametrize(
    "error",
    [
        UsageProblem("Mode mxfp4 does not support 3 bits.", hint="Possible: 4."),
        NotFound("There is no model x on this machine."),
        BadModelFiles("x cannot be used."),
        DoesNotFit("It needs 9 GB of disk.", need=9, have=1),
    ],
)
def test_bad_options_are_refused_before_there_is_a_job(desk: Desk, error: Exception) -> None:
    def check(_fields: dict[str, Any], _options: ServeOptions) -> Checked:
        raise error

    with _server(desk, check) as client:
        answer = client.post("/api/quantize/submit", json={"model_id": "x"})
    assert answer.status_code == 400
    body = answer.json()
    assert body["ok"] is False
    assert body["error"].startswith(str(error))
    assert desk.store.recent() == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "model_id required"),
        ({"model_id": " "}, "model_id required"),
        ({"model_id": 4}, "model_id required"),
        (
            {"model_id": "x", "embeddings": True, "quantize_embeddings": True},
            "embeddings and quantize_embeddings mean the same: send one of them.",
        ),
    ],
)
def test_what_is_not_said(desk: Desk, body: dict[str, Any], said: str) -> None:
    with _server(desk, _taken) as client:
        answer = client.post("/api/quantize/submit", json=body)
    assert (answer.status_code, answer.json()) == (400, {"ok": False, "error": said})
    assert desk.store.recent() == []


def test_the_document_knows_every_field_of_the_recipe() -> None:
    told = {field.encode_name: field for field in msgspec.structs.fields(QuantizeSubmit)}
    assert set(told) == {*TABLE.names, "embeddings"}
    for name in TABLE.names:
        if choices := TABLE.choices(name):
            assert all(repr(choice) in str(told[name].type) for choice in choices), name


def test_what_can_be_quantized(home: Home) -> None:
    snapshot = add_model(
        home.paths.hub_cache,
        "org/name",
        weights={"model.safetensors": safetensors(TENSORS, padding=2_000_000)},
    )
    assert home.post("/api/quantize/inspect", {"model_id": "org/name"}) == {
        "ok": True, "model_id": "org/name", "arch": "llama", "support": True, "size_gb": 0.002,
    }  # fmt: skip
    assert home.post("/api/quantize/inspect", {"model_id": str(snapshot)})["ok"] is True


def test_what_cannot_be_quantized(home: Home) -> None:
    add_model(home.paths.hub_cache, "org/odd", config=b'{"model_type": "novel"}')
    found = home.post("/api/quantize/inspect", {"model_id": "org/odd"})
    assert (found["ok"], found["arch"], found["support"]) == (False, "novel", False)
    assert "does not load the type novel" in found["error"]
    found = home.post("/api/quantize/inspect", {"model_id": "nowhere"})
    assert (found["ok"], found["model_id"]) == (False, "nowhere")
    assert "There is no model 'nowhere'" in found["error"]
    assert home.post("/api/quantize/inspect", {})["error"] == "model_id required"


def test_a_quantization_that_ends_makes_the_list_old(desk: Desk, tmp_path: Path) -> None:
    with _server(desk, _taken) as client:

        def names() -> list[str]:
            return [row["repo_id"] for row in client.get("/library").json()["models"]]

        assert names() == []
        add_model(desk.paths.hub_cache, "org/name")
        assert names() == []
        started = client.post("/api/quantize/submit", json={"model_id": "x"}).json()
        desk.end(desk.job(started["job_id"]))
        assert names() == ["org/name"]
