"""The proof of a run: measured on what was written, kept beside it, and able to stop it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import ProofFailed
from core.evals.heldout import heldout_rows
from core.evals.record import FILE, read_record
from core.evals.run import Around, run_verify
from core.paths import Paths
from core.provenance import read_provenance
from core.quantize import parts
from core.quantize.events import QuantizeEvent, Stage
from core.quantize.form import Form
from core.quantize.recipe import make_recipe
from core.quantize.run import QuantizeResult, run_quantize
from core.settings import Settings
from tests.core.evals.models import flip_scale
from tests.tiny import llama_config, make_model

SETTINGS = Settings(blas="off")


@pytest.fixture(autouse=True)
def _short_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every sixth sequence of the held-out text: a byte is a token here, and it is long."""

    def some(tokenizer: Any, *, length: int) -> Any:
        whole = heldout_rows(tokenizer, length=length)
        return replace(whole, rows=whole.rows[::6], domains=whole.domains[::6])

    monkeypatch.setattr("core.evals.heldout.heldout_rows", some)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths.from_environ({"HOME": str(tmp_path / "home")})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a random model in half precision, as models come."""
    return make_model(tmp_path / "source", config=llama_config(torch_dtype="float16"), seed=3)


def _run(source: Path, paths: Paths, **chosen: Any) -> QuantizeResult:
    recipe = make_recipe({"model_id": str(source), "group_size": 32, **chosen})
    return run_quantize(recipe, settings=SETTINGS, paths=paths, environ={})


def _around(paths: Paths) -> Around:
    return Around(settings=SETTINGS, paths=paths, environ={}, on_note=lambda _line: None)


@pytest.mark.parametrize(
    "chosen",
    [
        {"bits": 8, "kv_config": True, "n_calibration": 4},
        {"target_bpw": 7, "candidate_bits": "4,8", "n_calibration": 4},
    ],
    ids=["kv", "mixed"],
)
def test_progress_never_goes_back(source: Path, paths: Paths, chosen: dict[str, Any]) -> None:
    told: list[Stage] = []

    def hear(event: QuantizeEvent, /) -> None:
        if isinstance(event, Stage):
            told.append(event)

    recipe = make_recipe({"model_id": str(source), "group_size": 32, **chosen})
    run_quantize(recipe, settings=SETTINGS, paths=paths, environ={}, on_event=hear)
    progress = [event.progress for event in told]
    assert progress == sorted(progress)
    assert progress[-1] == 1.0


def test_a_run_ends_with_a_table_that_can_be_verified(source: Path, paths: Paths) -> None:
    result = _run(source, paths, bits=4)
    record = read_record(result.folder)
    assert record is not None
    assert record.table == result.table
    assert record.source.model_id == "source"
    assert record.recipe["bits"] == 4
    assert "output" not in record.recipe
    assert result.table is not None
    original, uniform = result.table.entries
    assert (original.role, uniform.role) == ("original", "uniform")
    assert uniform.bits_per_weight == pytest.approx(result.bits_per_weight)
    assert uniform.overall.kl > 0.01
    known = read_provenance(result.folder)
    assert known is not None
    figures = {(figure.name, figure.data): figure.value for figure in known.figures}
    assert uniform.domains["code"].kl == figures["KL divergence, mean", "code"]
    folder = str(result.folder)
    verified = run_verify(folder, original=str(source), layered=True, around=_around(paths))
    assert all(claim.holds for claim in verified.claims)
    assert len(verified.claims) > 100
    flip_scale(result.folder, "model.layers.1.mlp.down_proj.scales")
    verified = run_verify(folder, original=str(source), layered=None, around=_around(paths))
    assert not all(claim.holds for claim in verified.claims)


def test_limits_fail_the_run_and_nothing_is_visible(source: Path, paths: Paths) -> None:
    for limits in ({"max_kl": 0.0}, {"min_agreement": 1.0}):
        with pytest.raises(ProofFailed, match="uniform misses its limits"):
            _run(source, paths, bits=4, **limits)
        assert not list(paths.hub_cache.rglob("*.safetensors"))
    assert _run(source, paths, bits=4, max_kl=100.0, min_agreement=0.0).folder.is_dir()


def test_without_a_proof_the_record_says_so(source: Path, paths: Paths) -> None:
    result = _run(source, paths, bits=4, proof=False)
    record = read_record(result.folder)
    assert record is not None
    assert record.table is None
    assert result.table is None


def _mixing(monkeypatch: pytest.MonkeyPatch, first: int, rest: int) -> None:
    """Have every choice made by hand: the first layers in some bits, the others in some."""

    def choose(opened: Any) -> Any:
        chosen = {
            path: Form(bits=first if "layers.0" in path else rest, group_size=32)
            for path in opened.plan.choices
        }
        return opened.plan.with_forms(chosen)

    monkeypatch.setattr(parts, "choose_forms", choose)
    monkeypatch.setattr(parts, "fitted_packs", lambda _opened, _plan: None)


def test_a_worse_mixture_is_not_published(
    source: Path, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    _mixing(monkeypatch, first=2, rest=8)
    result = _run(source, paths, target_bpw=6.0)
    assert result.uniform_instead
    assert result.table is not None
    record = read_record(result.folder)
    assert record is not None
    assert record.table is not None
    roles = {entry.name: entry.role for entry in record.table.entries}
    assert roles == {"source": "original", "uniform": "uniform", "mixed": "other"}
    assert not record.table.comparisons[0].is_better
    verified = run_verify(
        str(result.folder), original=str(source), layered=None, around=_around(paths)
    )
    assert all(claim.holds for claim in verified.claims)
    assert {claim.model for claim in verified.claims} == {"source", "uniform"}


def test_a_better_mixture_is_published_with_its_baseline(
    source: Path, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    _mixing(monkeypatch, first=8, rest=8)
    monkeypatch.setattr(
        "core.quantize.run.uniform_near",
        lambda plan, _limit: plan.with_forms(
            dict.fromkeys(plan.choices, Form(bits=3, group_size=32))
        ),
    )
    result = _run(source, paths, target_bpw=6.0)
    assert not result.uniform_instead
    record = read_record(result.folder)
    assert record is not None
    assert record.table is not None
    assert [entry.role for entry in record.table.entries] == ["original", "uniform", "quantized"]
    assert {form["bits"] for form in record.baseline.values()} == {3}
    verified = run_verify(
        str(result.folder), original=str(source), layered=None, around=_around(paths)
    )
    assert all(claim.holds for claim in verified.claims)
    assert any("ratio of kl" in claim.name for claim in verified.claims)
    assert (result.folder / FILE).is_file()
