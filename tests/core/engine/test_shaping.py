"""Biases and penalties against mlx-lm's own, alone and beside rows that ask for others."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.sample_utils import make_logits_processors

from core.engine.request import SamplingParams
from core.engine.shaping import BatchShaping, RowShaping, TokenHistory, make_shaping

V = 61
CASES = [
    SamplingParams(repetition_penalty=1.3, repetition_context_size=20),
    SamplingParams(repetition_penalty=0.7, repetition_context_size=3),
    SamplingParams(repetition_penalty=1.5, repetition_context_size=0),
    SamplingParams(presence_penalty=0.8, presence_context_size=5),
    SamplingParams(presence_penalty=-0.4, presence_context_size=0),
    SamplingParams(frequency_penalty=0.3, frequency_context_size=20),
    SamplingParams(frequency_penalty=0.3, frequency_context_size=1),
    SamplingParams(frequency_penalty=-0.2, frequency_context_size=0),
    SamplingParams(logit_bias=((0, -3.5), (7, 2.0), (V - 1, -100.0))),
    SamplingParams(
        logit_bias=((5, 1.5),),
        repetition_penalty=1.2,
        repetition_context_size=7,
        presence_penalty=0.5,
        presence_context_size=0,
        frequency_penalty=0.25,
        frequency_context_size=11,
    ),
]


def logits_of(seed: int, rows: int = 1) -> mx.array:
    return 3 * mx.random.normal((rows, V), key=mx.random.key(seed))


def tokens_of(seed: int, length: int) -> list[int]:
    return [int(n) for n in np.random.default_rng(seed).integers(0, V, length)]


def by_mlx_lm(params: SamplingParams, tokens: Sequence[int], logits: mx.array) -> np.ndarray:
    processors = make_logits_processors(
        dict(params.logit_bias or ()) or None,
        params.repetition_penalty,
        params.repetition_context_size,
        params.presence_penalty,
        params.presence_context_size,
        params.frequency_penalty,
        params.frequency_context_size,
    )
    shaped = mx.array(np.array(logits))
    for processor in processors:
        shaped = processor(mx.array(list(tokens)), shaped)
    return np.array(shaped)


def shaped(
    rows: Sequence[tuple[int, RowShaping]], logits: mx.array, current: Sequence[int]
) -> np.ndarray:
    copy = mx.array(np.array(logits))
    return np.array(BatchShaping(rows, V)(copy, mx.array(list(current), dtype=mx.uint32)))


def shaping_of(params: SamplingParams, tokens: Sequence[int]) -> RowShaping:
    shaping = make_shaping(params, tokens)
    assert shaping is not None
    return shaping


@pytest.mark.parametrize("params", CASES)
@pytest.mark.parametrize("length", [1, 2, 6, 40])
def test_a_row_is_shaped_as_by_mlx_lm(params: SamplingParams, length: int) -> None:
    tokens, logits = tokens_of(length, length), logits_of(length)
    shaping = shaping_of(params, tokens[:-1])
    result = shaped([(0, shaping)], logits, tokens[-1:])
    assert np.allclose(result, by_mlx_lm(params, tokens, logits), atol=1e-5)


def test_rows_are_shaped_together_as_alone() -> None:
    logits = logits_of(3, len(CASES) + 2)
    histories = [tokens_of(n, 1 + 9 * n) for n in range(len(logits))]
    # The first and the last row of the batch ask for nothing.
    rows = [(n, shaping_of(each, histories[n][:-1])) for n, each in enumerate(CASES, start=1)]
    result = shaped(rows, logits, [history[-1] for history in histories])
    for n, params in enumerate(CASES, start=1):
        expected = by_mlx_lm(params, histories[n], logits[n : n + 1])
        assert np.allclose(result[n : n + 1], expected, atol=1e-5)
    for n in (0, len(logits) - 1):
        assert np.array_equal(result[n], np.array(logits[n]))


@pytest.mark.parametrize("params", CASES)
def test_windows_move_on_with_the_answer(params: SamplingParams) -> None:
    tokens = tokens_of(1, 30)
    shaping = shaping_of(params, tokens[:3])
    batch = [(0, shaping)]
    for end in range(4, 31):
        logits = logits_of(end)
        expected = by_mlx_lm(params, tokens[:end], logits)
        assert np.allclose(shaped(batch, logits, [tokens[end - 1]]), expected, atol=1e-5)
        shaping.hear(tokens[end - 1])


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_precision_stays_what_it_is(dtype: mx.Dtype) -> None:
    rows = [(0, shaping_of(CASES[-1], [1, 2, 3]))]
    assert BatchShaping(rows, V)(logits_of(0).astype(dtype), mx.array([4])).dtype == dtype


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(repetition_penalty=1.0, repetition_context_size=20),
        SamplingParams(
            repetition_penalty=0.0, presence_penalty=0.0, frequency_penalty=0.0, logit_bias=()
        ),
    ],
)
def test_what_is_off_is_nothing(params: SamplingParams) -> None:
    assert make_shaping(params, [1, 2, 3]) is None


def test_a_bias_outside_the_vocabulary_touches_nothing() -> None:
    params = SamplingParams(logit_bias=((-1, 9.0), (2, 1.0), (V, 9.0), (10**9, 9.0)))
    logits = logits_of(2)
    result = shaped([(0, shaping_of(params, [1]))], logits, [1])
    expected = np.array(logits)
    expected[0, 2] += 1
    assert np.allclose(result, expected)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16])
def test_an_absurd_bias_decides_without_overflowing(dtype: mx.Dtype) -> None:
    params = SamplingParams(logit_bias=((2, 1e300), (3, -1e300)))
    logits = logits_of(2).astype(dtype)
    result = BatchShaping([(0, shaping_of(params, [1]))], V)(logits, mx.array([1]))
    shown = np.array(result.astype(mx.float32))[0]
    assert np.isfinite(shown).all()
    assert (shown.argmax(), shown.argmin()) == (2, 3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=700), st.integers(0, 40), st.integers(0, 300))
def test_a_history_is_a_list_that_only_grows(tokens: list[int], size: int, start: int) -> None:
    history = TokenHistory(tokens[:start])
    for token in tokens[start:]:
        history.append(token)
    assert len(history) == len(tokens)
    assert history.last(size).tolist() == (tokens[-size:] if size else [])
    assert history.last(len(tokens)).tolist() == tokens
