"""Log-probabilities read off logits."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from core.engine.logprobs import read_rows


def log_softmax(logits: mx.array) -> np.ndarray:
    wide = np.array(logits.astype(mx.float32)).astype(np.float64)
    shifted: np.ndarray = wide - wide.max(axis=-1, keepdims=True)
    normal: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return normal


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_rows_get_what_they_want(dtype: mx.Dtype) -> None:
    logits = (4 * mx.random.normal((4, 50), key=mx.random.key(1))).astype(dtype)
    tokens = mx.array([3, 0, 49, 7])
    expected = log_softmax(logits)
    none, chosen, some, many = read_rows(logits, tokens, [(1, 0), (2, 3), (3, 11)])
    assert none is None
    assert chosen
    assert chosen.read().top == ()
    for row, pending, top in ((1, chosen, 0), (2, some, 3), (3, many, 11)):
        assert pending
        reading = pending.read()
        token = int(np.array(tokens)[row])
        assert abs(reading.chosen - expected[row, token]) < 1e-5
        values = [value for _, value in reading.top]
        assert len(values) == top
        assert values == sorted(values, reverse=True)
        assert np.allclose(values, np.sort(expected[row])[::-1][:top], atol=1e-5)
        assert np.allclose(values, [expected[row, token] for token, _ in reading.top], atol=1e-5)


def test_more_than_there_are_is_all() -> None:
    (pending,) = read_rows(mx.zeros((1, 5)), mx.array([2]), [(0, 11)])
    assert pending
    assert sorted(token for token, _ in pending.read().top) == [0, 1, 2, 3, 4]
