"""Predictions beside what people measured with mlx-lm; `docs/fit.md` names the places."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from core.fit.assess import Assessor, Question
from core.fit.host import sku_host
from core.fit.machines import Speed, find_skus
from core.fit.memory import Computing, Estimator
from core.fit.speed import BANDWIDTH_SHARE, FP16_SHARE, predict, prefill_operations
from tests.core.fit.large import llama_8b
from tests.core.fit.mixtures import PUBLISHED, Run, estimator_of
from tests.core.fit.test_assess import assessor_of

FAST = Speed(bandwidth=400e9, fp16=10e12)


@pytest.fixture(scope="module")
def assessor(tmp_path_factory: pytest.TempPathFactory) -> Assessor:
    return assessor_of(llama_8b(tmp_path_factory.mktemp("models") / "Llama-8B-4bit", bits=4))


@pytest.fixture(scope="module")
def estimator(assessor: Assessor) -> Estimator:
    candidate = assessor.assess(sku_host(find_skus("M1 8")[0]), Question()).candidate
    return Estimator(candidate.shape, candidate.weights, Computing(gpu=True, storage="stored"))


@pytest.mark.parametrize(("mac", "measured"), [("M2 Pro 32", 36.2), ("M3 Ultra 512", 119)])
def test_decoding_is_near_published_runs(assessor: Assessor, mac: str, measured: float) -> None:
    (sku,) = find_skus(mac)
    predicted = assessor.assess(sku_host(sku), Question(context=512)).prediction
    assert predicted is not None
    assert predicted.decode == pytest.approx(measured, rel=0.2)


def predicted_decode(run: Run) -> float:
    (sku,) = find_skus(run.mac)
    predicted = predict(estimator_of(run), sku.speed, context=run.context, rows=1)
    assert predicted is not None
    return predicted.decode


@pytest.mark.parametrize("run", PUBLISHED, ids=lambda run: f"{run.model}-{run.bits}-{run.mac}")
def test_mixtures_are_near_published_runs(run: Run) -> None:
    assert 0.7 < predicted_decode(run) / run.decode < 1.3


def test_mixtures_are_predicted_neither_too_fast_nor_too_slow_on_average() -> None:
    ratios = [predicted_decode(run) / run.decode for run in PUBLISHED]
    assert fmean(ratios) == pytest.approx(1, abs=0.05)


def test_the_docs_have_the_same_runs() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "fit.md").read_text(encoding="utf-8")
    for run in PUBLISHED:
        chip = " ".join(run.mac.split(" ")[:2])
        shown = f"{predicted_decode(run):.0f} / {run.decode:.0f}"
        assert f"| {run.model}, {run.bits} bits | {chip} | {run.context:,} | {shown} |" in text


def test_dense_models_do_not_depend_on_the_cost_of_experts(estimator: Estimator) -> None:
    slow = Speed(bandwidth=400e9, fp16=10e12, expert_layer=1.0)
    fast = predict(estimator, FAST, context=1024, rows=1)
    assert predict(estimator, slow, context=1024, rows=1) == fast


def test_an_unknown_bandwidth_predicts_nothing(estimator: Estimator) -> None:
    unknown = Speed(bandwidth=None, fp16=None)
    assert predict(estimator, unknown, context=1024, rows=1) is None


def test_an_unknown_fp16_predicts_decoding_alone(estimator: Estimator) -> None:
    half = predict(estimator, Speed(bandwidth=400e9, fp16=None), context=1024, rows=1)
    assert half is not None
    assert half.decode > 0
    assert (half.prefill, half.ttft) == (None, None)


def test_decoding_slows_with_context_and_gains_with_rows(estimator: Estimator) -> None:
    def decode(context: int, rows: int) -> float:
        predicted = predict(estimator, FAST, context=context, rows=rows)
        assert predicted is not None
        return predicted.decode

    assert decode(512, 1) > decode(32_768, 1) > decode(131_072, 1)
    assert decode(512, 1) < decode(512, 8) < 8 * decode(512, 1)


def test_the_bound_is_what_is_read(estimator: Estimator) -> None:
    predicted = predict(estimator, FAST, context=1, rows=1)
    assert predicted is not None
    # Everything but the embedding, once a token.
    read = estimator.weights.stored_bytes * (1 - 128_256 * 4096 / estimator.weights.parameters)
    assert predicted.decode < BANDWIDTH_SHARE * 400e9 / read
    assert predicted.decode == pytest.approx(BANDWIDTH_SHARE * 400e9 / read, rel=0.15)


def test_prefill_counts_products_and_pairs(estimator: Estimator) -> None:
    tokens = 1000
    weights = 8_030_261_248 - 2 * 128_256 * 4096  # neither the embedding nor the head
    pairs = 32 * 4 * 32 * 128 * tokens * tokens / 2
    counted = prefill_operations(estimator, tokens)
    assert counted == pytest.approx(2 * weights * tokens + pairs, rel=1e-3)
    predicted = predict(estimator, FAST, context=tokens, rows=1)
    assert predicted is not None
    assert predicted.prefill == pytest.approx(FP16_SHARE * 10e12 * tokens / counted)
    seconds = counted / (FP16_SHARE * 10e12)
    assert predicted.ttft is not None
    assert seconds < predicted.ttft < seconds + 2 / predicted.decode


def test_twice_the_bits_are_half_as_fast(assessor: Assessor, tmp_path: Path) -> None:
    host = sku_host(find_skus("M4 Max 64")[0])
    wide = assessor_of(llama_8b(tmp_path / "Llama-8B-8bit", bits=8))
    slow = wide.assess(host, Question(context=512)).decode
    fast = assessor.assess(host, Question(context=512)).decode
    assert slow is not None
    assert fast is not None
    assert 0.45 < slow / fast < 0.65
