"""`/fit`: the served model here and on every Mac."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from commands.serve.wire.fit import fit_body
from core.fit.assess import Assessor, Question
from core.fit.candidate import read_candidate
from core.fit.machines import load_skus
from core.fit.measured import Measured
from core.registry.resolve import ModelRef
from core.units import GIB
from tests.commands.serve.home import Home
from tests.tiny import llama_config, make_model

TOP = [
    "machine", "context_tokens", "typical_context_tokens", "typical_decode_tps",
    "measured_decode_tps", "measured_at", "report", "sku_matrix_ctx", "sku_matrix",
]  # fmt: skip
REPORT = [
    "fits", "weights_bytes", "kv_bytes", "transient_bytes", "total_bytes", "usable_bytes",
    "max_safe_context", "predicted_decode_tps",
]  # fmt: skip


@pytest.fixture
def served(home: Home, tmp_path: Path) -> Home:
    config = llama_config(max_position_embeddings=2048)
    home.engine.folder = make_model(tmp_path / "tiny", config=config)
    home.engine.budget_bytes = 10**9
    return home


def test_the_body_is_that_of_the_protocol(served: Home) -> None:
    fit = served.get("/fit")
    assert list(fit) == TOP
    assert list(fit["report"]) == REPORT
    assert fit["machine"] == {
        "chip": served.options.host.name,
        "ram_bytes": 24 * GIB,
        "bandwidth_gbs": 273.0,
    }
    window = served.engine.stats().max_context
    assert fit["context_tokens"] == fit["typical_context_tokens"] == window
    report = fit["report"]
    parts = report["weights_bytes"] + report["kv_bytes"] + report["transient_bytes"]
    assert report["total_bytes"] == parts
    assert report["usable_bytes"] == served.engine.budget_bytes
    assert report["fits"] is True
    assert fit["typical_decode_tps"] > 0
    assert (fit["measured_decode_tps"], fit["measured_at"]) == (None, None)


def test_every_mac_is_in_the_matrix(served: Home) -> None:
    fit = served.get("/fit")
    assert len(fit["sku_matrix"]) == len(load_skus())
    first = fit["sku_matrix"][0]
    assert list(first) == ["sku", "ram_gb", "fits", "max_context", "decode_tps"]
    assert all(row["fits"] and row["decode_tps"] > 0 for row in fit["sku_matrix"])
    assert fit["sku_matrix_ctx"] == first["max_context"] == 2048


def test_a_budget_that_is_too_small_is_told(served: Home) -> None:
    served.engine.budget_bytes = 1000
    report = served.get("/fit")["report"]
    assert (report["fits"], report["max_safe_context"]) == (False, 0)


def test_it_is_told_again_without_the_files(served: Home) -> None:
    fit = served.get("/fit")
    assert served.engine.folder is not None
    (served.engine.folder / "config.json").unlink()
    assert served.get("/fit") == fit


def test_files_that_are_not_there_are_one_sentence(served: Home, tmp_path: Path) -> None:
    served.engine.folder = tmp_path / "nothing"
    answer = served.client.get("/fit")
    assert answer.status_code == 500
    assert "config.json" in answer.json()["error"]["message"]
    assert served.client.get("/health").status_code == 200


def test_what_was_measured_stands_beside_what_is_predicted(served: Home) -> None:
    assert served.engine.folder is not None
    candidate = read_candidate(ModelRef(model_id="tiny", folder=served.engine.folder))
    here = served.options.host
    found = Assessor(candidate).assess(here, Question(context=2048))
    measured = Measured(
        measured_at=datetime(2026, 11, 29, 12, tzinfo=UTC),
        loaded_as="bf16",
        decode=31.5,
        prefill=None,
        prefill_tokens=None,
        ttft=None,
    )
    body = fit_body(found, replace(found, measured=measured), [])
    assert (body.measured_decode_tps, body.measured_at) == (31.5, 1_795_953_600_000)
    assert body.typical_decode_tps == body.report.predicted_decode_tps != 31.5
    without = fit_body(found, replace(found, measured=replace(measured, decode=None)), [])
    assert (without.measured_decode_tps, without.measured_at) == (None, None)


def test_a_machine_of_unknown_speed_predicts_nothing(served: Home) -> None:
    assert served.engine.folder is not None
    candidate = read_candidate(ModelRef(model_id="tiny", folder=served.engine.folder))
    speed = replace(served.options.host.speed, bandwidth=None)
    found = Assessor(candidate).assess(replace(served.options.host, speed=speed), Question())
    body = fit_body(found, found, [found])
    assert body.machine.bandwidth_gbs is None
    assert body.report.predicted_decode_tps is None
    assert body.sku_matrix[0].decode_tps == 0
