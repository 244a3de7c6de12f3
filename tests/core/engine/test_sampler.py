"""Sampling against mlx-lm's own filters, and reproducibility."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p

from core.engine.request import SamplingParams
from core.engine.sampler import filter_logits, fold_seed, greedy, make_sampler, sample_rows


def logprobs(seed: int = 0, vocabulary: int = 97) -> mx.array:
    logits = 3 * mx.random.normal((1, vocabulary), key=mx.random.key(seed))
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)


@pytest.mark.parametrize("seed", range(4))
def test_filters_equal_those_of_mlx_lm(seed: int) -> None:
    given = logprobs(seed)
    pairs = [
        (SamplingParams(top_p=0.7), apply_top_p(given, 0.7)),
        (SamplingParams(min_p=0.1), apply_min_p(given, 0.1)),
        (SamplingParams(top_k=5), apply_top_k(given, 5)),
        (
            SamplingParams(top_p=0.9, min_p=0.02, top_k=7),
            apply_top_k(apply_min_p(apply_top_p(given, 0.9), 0.02), 7),
        ),
    ]
    for params, expected in pairs:
        assert np.array_equal(np.array(filter_logits(given, params)), np.array(expected))


def test_logits_need_not_be_normalized() -> None:
    params = SamplingParams(top_p=0.8, min_p=0.01, top_k=9)
    normalized = np.isfinite(np.array(filter_logits(logprobs(), params)))
    shifted = np.isfinite(np.array(filter_logits(logprobs() + 300, params)))
    assert np.array_equal(normalized, shifted)


@pytest.mark.parametrize(
    "params", [SamplingParams(top_p=0.0), SamplingParams(top_p=1.0), SamplingParams(top_k=0)]
)
def test_values_that_mean_off_keep_everything(params: SamplingParams) -> None:
    assert np.array_equal(np.array(filter_logits(logprobs(), params)), np.array(logprobs()))


def test_top_k_beyond_the_vocabulary_keeps_everything() -> None:
    kept = filter_logits(logprobs(vocabulary=10), SamplingParams(top_k=10_000))
    assert np.isfinite(np.array(kept)).all()


def test_a_tiny_top_p_keeps_the_likeliest() -> None:
    kept = np.array(filter_logits(logprobs(), SamplingParams(top_p=1e-9)))
    assert np.isfinite(kept).sum() == 1
    assert kept.argmax() == np.array(logprobs()).argmax()


def draw(tokens: mx.array) -> int:
    (token,) = np.array(tokens).tolist()
    return int(token)


def draws(seed: int, count: int = 20, **params: float) -> list[int]:
    sampler = make_sampler(SamplingParams(temperature=params.get("temperature", 1.0), seed=seed))
    return [draw(sampler(logprobs())) for _ in range(count)]


def test_a_seed_repeats_and_another_does_not() -> None:
    assert draws(7) == draws(7)
    assert draws(7) != draws(8)
    assert len(set(draws(7))) > 3


def test_draws_follow_the_distribution() -> None:
    probs = np.exp(np.array(logprobs(vocabulary=5))[0])
    sampler = make_sampler(SamplingParams(temperature=1.0, seed=3))
    counts = np.bincount([draw(sampler(logprobs(vocabulary=5))) for _ in range(3000)], minlength=5)
    assert np.abs(counts / 3000 - probs).max() < 0.03


def test_rows_do_not_touch_the_global_random_state() -> None:
    mx.random.seed(1)
    expected = mx.random.uniform(shape=(3,)).tolist()
    mx.random.seed(1)
    draws(5)
    assert mx.random.uniform(shape=(3,)).tolist() == expected


@pytest.mark.parametrize("temperature", [1e-300, 1e-30, 1e-6])
def test_a_tiny_temperature_takes_the_likeliest(temperature: float) -> None:
    expected = draw(greedy(logprobs()))
    assert draws(3, count=3, temperature=temperature) == [expected] * 3


def test_temperature_zero_is_the_shared_greedy_sampler() -> None:
    assert make_sampler(SamplingParams(temperature=0.0)) is greedy


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**63 - 1, -1, -(2**63)])
def test_any_integer_folds_to_32_bits(seed: int) -> None:
    assert 0 <= fold_seed(seed) < 2**32


def test_large_seeds_stay_apart() -> None:
    assert fold_seed(2**32 + 1) != fold_seed(1)


def test_rows_draw_together_what_they_draw_alone() -> None:
    hot, cold = SamplingParams(temperature=1.5, top_p=0.9), SamplingParams(temperature=0.4, top_k=9)
    wishes = [
        replace(hot, seed=1),
        replace(cold, seed=2),
        SamplingParams(temperature=0.0),
        replace(hot, seed=3),
        replace(cold, seed=1),
        SamplingParams(temperature=0.0),
    ]
    logits = mx.concatenate([logprobs(seed) for seed in range(len(wishes))])
    together = [make_sampler(wish, drawn=4) for wish in wishes]
    alone = [make_sampler(wish, drawn=4) for wish in wishes]
    for _ in range(5):
        expected = [draw(sampler(logits[i : i + 1])) for i, sampler in enumerate(alone)]
        assert np.array(sample_rows(logits, together)).tolist() == expected


def test_rows_with_the_same_seed_and_logits_draw_the_same() -> None:
    samplers = [make_sampler(SamplingParams(temperature=1.0, seed=5)) for _ in range(3)]
    first = np.array(sample_rows(mx.concatenate([logprobs()] * 3), samplers)).tolist()
    assert len(set(first)) == 1
