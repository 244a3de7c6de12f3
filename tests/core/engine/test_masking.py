"""Masks of constraints on logits."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from core.engine.masking import BatchMask, forbid
from tests.core.engine.fakes import AllowOnly


def allow(vocabulary: int, *tokens: int, words: int | None = None) -> np.ndarray:
    mask = np.zeros(32 * (words or -(-vocabulary // 32)), dtype=np.uint32)
    mask[list(tokens)] = 1
    shifted = mask.reshape(-1, 32) << np.arange(32, dtype=np.uint32)
    packed: np.ndarray = shifted.sum(axis=-1, dtype=np.uint32).view(np.int32)
    return packed[None]


@pytest.mark.parametrize("vocabulary", [1, 31, 32, 33, 97, 128])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_only_what_has_a_bit_keeps_its_logit(vocabulary: int, dtype: mx.Dtype) -> None:
    logits = mx.random.normal((1, vocabulary), key=mx.random.key(vocabulary)).astype(dtype)
    tokens = sorted({0, vocabulary // 2, vocabulary - 1})
    shown = forbid(logits, allow(vocabulary, *tokens))
    assert shown.dtype == dtype
    result, given = (np.array(each.astype(mx.float32))[0] for each in (shown, logits))
    assert np.array_equal(result[tokens], given[tokens])
    assert np.isneginf(np.delete(result, tokens)).all()


def test_even_an_infinite_logit_is_forbidden_or_left() -> None:
    logits = mx.array([[np.inf, np.inf, -np.inf, -0.0]])
    shown = np.array(forbid(logits, allow(4, 1, 2, 3)))[0]
    assert shown.tolist() == [-np.inf, np.inf, -np.inf, 0.0]


def test_tokens_beyond_the_masks_packedare_forbidden() -> None:
    shown = np.array(forbid(mx.zeros((1, 70)), allow(32, 3, 31)))[0]
    assert np.flatnonzero(np.isfinite(shown)).tolist() == [3, 31]


def test_each_row_has_its_own_and_the_others_are_free() -> None:
    logits = mx.random.normal((3, 40), key=mx.random.key(0))
    mask = BatchMask([(0, AllowOnly({1, 39})), (2, AllowOnly({5}))])
    shown = np.array(mask(logits))
    assert np.flatnonzero(np.isfinite(shown[0])).tolist() == [1, 39]
    assert np.array_equal(shown[1], np.array(logits[1]))
    assert np.flatnonzero(np.isfinite(shown[2])).tolist() == [5]


def test_a_constraint_that_forbids_nothing_costs_nothing() -> None:
    logits = mx.zeros((1, 40))
    assert BatchMask([(0, AllowOnly(None))])(logits) is logits
