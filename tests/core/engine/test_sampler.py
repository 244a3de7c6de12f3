"""Sampling against mlx-lm's own filters, and reproducibility."""

from __future__ import annotations

import math
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.sample_utils import apply_min_p, apply_top_k, apply_top_p, apply_xtc

from core.engine.request import SamplingParams, ToneCurve
from core.engine.sampler import DrawRows, Filters, fold_seed, greedy, make_sampler


def logprobs(seed: int = 0, vocabulary: int = 97) -> mx.array:
    logits = 3 * mx.random.normal((1, vocabulary), key=mx.random.key(seed))
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)


def filter_logits(
    logits: mx.array, *rows: SamplingParams, exempt: frozenset[int] = frozenset(), step: int = 0
) -> mx.array:
    keys = mx.array([[row.seed or 0, step] for row in rows], dtype=mx.uint32)
    return Filters(rows, exempt=exempt)(logits, keys)


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
    rows = DrawRows(together)
    for _ in range(5):
        expected = [draw(sampler(logits[i : i + 1])) for i, sampler in enumerate(alone)]
        assert np.array(rows(logits)).tolist() == expected


def test_rows_with_the_same_seed_and_logits_draw_the_same() -> None:
    samplers = [make_sampler(SamplingParams(temperature=1.0, seed=5)) for _ in range(3)]
    first = np.array(DrawRows(samplers)(mx.concatenate([logprobs()] * 3))).tolist()
    assert len(set(first)) == 1


XTC = SamplingParams(xtc_probability=1.0, xtc_threshold=0.01)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("exempt", [frozenset[int](), frozenset({3, 11})])
def test_xtc_equals_mlx_lms(seed: int, exempt: frozenset[int]) -> None:
    given = logprobs(seed)
    likeliest = int(np.array(given).argmax())
    exempt |= {likeliest} if exempt else set()
    expected = apply_xtc(given, 1.0, 0.01, list(exempt))
    assert np.array_equal(np.array(filter_logits(given, XTC, exempt=exempt)), np.array(expected))
    assert (np.array(expected) == -np.inf).sum() > 0


def test_xtc_comes_between_min_p_and_top_k() -> None:
    params = replace(XTC, top_p=0.9, min_p=0.02, top_k=3)
    expected = apply_top_p(logprobs(), 0.9)
    expected = apply_top_k(apply_xtc(apply_min_p(expected, 0.02), 1.0, 0.01, []), 3)
    assert np.array_equal(np.array(filter_logits(logprobs(), params)), np.array(expected))


def test_xtc_flips_a_coin_for_each_step_of_each_row() -> None:
    logits = mx.concatenate([logprobs()] * 2)
    rows = [replace(XTC, xtc_probability=0.5, seed=1), replace(XTC, xtc_probability=0.25, seed=2)]
    flips = np.array(
        [
            np.isinf(np.array(filter_logits(logits, *rows, step=step))).any(axis=-1)
            for step in range(400)
        ]
    )
    assert np.abs(flips.mean(axis=0) - [0.5, 0.25]).max() < 0.08
    alone = np.isinf(np.array(filter_logits(logits[1:], rows[1], step=7))).any()
    assert alone == flips[7, 1]


CURVE = ToneCurve(enabled=True, width=4.0, shoulder=4.0, toe=6.0, pivot_offset=6.0)


def bend(value: float, curve: ToneCurve) -> float:
    """The formula of the curve, for one number relative to the pivot."""
    w, s, t = curve.width or 0, curve.shoulder or 0, curve.toe or 0
    if value < -w:
        return -w - t * math.log(1 + (-value - w) / t)
    return value if value <= w else w + s * math.log(1 + (value - w) / s)


@pytest.mark.parametrize(
    "curve", [CURVE, ToneCurve(enabled=True, width=1.0, shoulder=0.5, toe=2.0, pivot_offset=3.0)]
)
def test_a_tone_curve_follows_its_formula(curve: ToneCurve) -> None:
    given = 5 * np.array(logprobs())
    pivot = given.max() - (curve.pivot_offset or 0)
    expected = [bend(value - pivot, curve) for value in given[0]]
    shown = filter_logits(mx.array(given), SamplingParams(tone_curve=curve))
    assert np.allclose(np.array(shown)[0], expected, atol=1e-5)


def test_a_wide_tone_curve_is_plain_temperature() -> None:
    wide = replace(CURVE, width=1e6)
    params = SamplingParams(temperature=0.8, seed=4, tone_curve=wide)
    plain = replace(params, tone_curve=replace(wide, enabled=False))
    bent, straight = make_sampler(params), make_sampler(plain)
    assert [draw(bent(logprobs())) for _ in range(50)] == [
        draw(straight(logprobs())) for _ in range(50)
    ]


def test_a_tone_curve_keeps_the_order_and_what_is_forbidden() -> None:
    given = 9 * np.array(logprobs())
    given[0, :5] = -np.inf
    bent = np.array(filter_logits(mx.array(given), SamplingParams(tone_curve=CURVE)))
    assert np.array_equal(np.argsort(bent[0, 5:]), np.argsort(given[0, 5:]))
    assert (bent[0, :5] == -np.inf).all()
    assert np.isfinite(bent[0, 5:]).all()


def test_a_flat_tone_curve_does_not_divide_by_nothing() -> None:
    flat = replace(CURVE, shoulder=0.0, toe=0.0)
    shown = np.array(filter_logits(9 * logprobs(), SamplingParams(tone_curve=flat)))
    assert np.isfinite(shown).all()


def test_rows_with_the_same_steps_keep_values_of_their_own() -> None:
    rows = [
        SamplingParams(top_p=0.3 + 0.2 * n, min_p=0.01 * (n + 1), tone_curve=CURVE)
        for n in range(3)
    ]
    logits = mx.concatenate([logprobs(seed) for seed in range(3)])
    together = np.array(filter_logits(logits, *rows))
    alone = [np.array(filter_logits(logits[n : n + 1], row))[0] for n, row in enumerate(rows)]
    assert np.array_equal(together, np.array(alone))
