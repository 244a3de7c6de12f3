"""The estimate is within ten percent of what MLX says that a run of the engine takes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.fit_error import MODELS, compare, estimator_of
from core.fit.kv import LayerKv
from core.fit.memory import Computing, Estimator, quantized_note
from core.machine.compute import ComputePlan, prepare_compute
from tests.tiny import make_model

WITHIN = 0.10


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ComputePlan:
    cache = tmp_path_factory.mktemp("cache")
    return prepare_compute(blas="auto", dequantize="auto", cache=cache, environ=dict(os.environ))


# Half a minute each: most of them are for the long suite.
_QUICK = ("llama", "gpt_oss")
_NAMES = [name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]


@pytest.mark.parametrize("name", _NAMES)
def test_the_estimate_is_near_the_measured_peak(
    name: str, plan: ComputePlan, tmp_path: Path
) -> None:
    if plan.machine.backend != "cpu":
        pytest.skip("measured on a CPU")
    folder = make_model(tmp_path / name, config=MODELS[name])
    for peak in compare(folder, plan, ((384, 1), (512, 3))):
        assert abs(peak.error) < WITHIN, f"{peak}: {100 * peak.error:+.1f}%"


def test_loading_packed_weights_is_counted(plan: ComputePlan, tmp_path: Path) -> None:
    if plan.machine.backend != "cpu":
        pytest.skip("measured on a CPU")
    folder = make_model(tmp_path / "packed", config=MODELS["llama"], bits=4)
    for peak in compare(folder, plan, ((64, 1), (512, 1))):
        assert abs(peak.error) < WITHIN, f"{peak}: {100 * peak.error:+.1f}%"


@pytest.fixture(scope="module")
def llama(plan: ComputePlan, tmp_path_factory: pytest.TempPathFactory) -> Estimator:
    folder = make_model(tmp_path_factory.mktemp("models") / "llama", config=MODELS["llama"])
    return estimator_of(folder, plan)


def test_longer_contexts_and_more_rows_take_more(llama: Estimator) -> None:
    lengths = [llama.memory(context=n, rows=1).total_bytes for n in (64, 512, 2048, 16384)]
    assert lengths == sorted(lengths)
    rows = [llama.memory(context=1024, rows=n).total_bytes for n in (1, 2, 8, 64)]
    assert rows == sorted(rows)


def test_a_fused_kernel_saves_the_scores(llama: Estimator) -> None:
    gpu = Estimator(llama.shape, llama.weights, Computing(gpu=True, storage="stored"))
    # On a CPU a chunk's scores alone are [6, 512, 16384] in float32; on a GPU there are none, and
    # the chunk has 2048 tokens.
    kept = llama.kv.row_bytes(16384)
    assert llama.prefill_bytes(16384, 1) > kept + 6 * 512 * 16384 * 4
    assert gpu.prefill_bytes(16384, 1) < kept + 6 * 2048 * 16384 * 4


def test_a_window_bounds_what_is_kept() -> None:
    layer = LayerKv(bytes_per_token=10, window=256)
    assert layer.bytes(10_000) == 2560


def test_what_stays_unquantized_is_said(plan: ComputePlan, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "sliding", config=MODELS["gemma3_text"])
    known = estimator_of(folder, plan)
    eight = Estimator(known.shape, known.weights, Computing(gpu=True, storage="stored", kv_bits=8))
    note = quantized_note(eight)
    assert note is not None
    assert "sliding" in note
    assert quantized_note(known) is None
