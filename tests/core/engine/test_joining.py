"""Rows joined with fewer copies are the rows that mlx-lm would have joined."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache

from core.engine.joining import join_caches
from core.engine.prefill import LeanPromptBatch
from core.engine.sampler import greedy


def cache(rows: int, tokens: int, spare: int = 0, padding: list[int] | None = None) -> BatchKVCache:
    made = BatchKVCache(padding or [0] * rows)
    shape = (rows, 2, tokens + spare, 4)
    made.keys = mx.random.normal(shape, key=mx.random.key(rows + tokens))
    made.values = mx.random.normal(shape, key=mx.random.key(rows * tokens))
    made.offset = made.offset + tokens
    made._idx = tokens
    return made


def facts(joined: Any) -> list[Any]:
    keys, values = joined.keys_and_values()
    arrays = (keys, values, joined.offset, joined.left_padding)
    return [np.array(array) for array in arrays]


CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"rows": 4, "tokens": 7}, {"rows": 1, "tokens": 30}),
    ({"rows": 1, "tokens": 30}, {"rows": 2, "tokens": 7}),
    ({"rows": 2, "tokens": 10, "spare": 6}, {"rows": 2, "tokens": 10, "spare": 1}),
    ({"rows": 2, "tokens": 10, "spare": 30}, {"rows": 1, "tokens": 20}),
    ({"rows": 3, "tokens": 9, "padding": [0, 2, 5]}, {"rows": 2, "tokens": 12, "padding": [3, 0]}),
]


@pytest.mark.parametrize(("first", "second"), CASES)
def test_the_same_as_mlx_lm(first: dict[str, Any], second: dict[str, Any]) -> None:
    expected = cache(**first)
    expected.extend(cache(**second))
    (joined,) = join_caches([cache(**first)], [cache(**second)])
    for ours, theirs in zip(facts(joined), facts(expected), strict=True):
        assert np.array_equal(ours, theirs)
    assert joined._idx == expected._idx
    # And it goes on growing as usual.
    new = mx.ones((joined.keys.shape[0], 2, 1, 4))
    keys, _ = joined.update_and_fetch(new, new)
    assert keys.shape[2] == expected._idx + 1


def test_an_empty_side_is_no_matter() -> None:
    some = [cache(1, 3)]
    assert join_caches([], some) is some
    assert join_caches(some, []) is some


def test_other_kinds_of_caches_join_as_mlx_lm_joins_them() -> None:
    def rotating(tokens: int) -> BatchRotatingKVCache:
        made = BatchRotatingKVCache(8, [0])
        made.update_and_fetch(mx.ones((1, 2, tokens, 4)), mx.ones((1, 2, tokens, 4)))
        return made

    expected = rotating(5)
    expected.extend(rotating(3))
    (joined,) = join_caches([rotating(5)], [rotating(3)])
    assert np.array_equal(np.array(joined.keys), np.array(expected.keys))


def test_prompts_that_are_done_together_are_handed_on_as_they_are() -> None:
    batch = LeanPromptBatch.empty(None, greedy, prefill_step_size=64)
    batch.uids, batch.tokens, batch.prompt_cache = [3, 5], [[1], [2]], [cache(2, 4)]
    for name in ("samplers", "logits_processors", "max_tokens", "stop_sequences"):
        setattr(batch, name, [name, name])
    keys = batch.prompt_cache[0].keys
    whole = batch.split([0, 1])
    assert type(whole) is LeanPromptBatch
    assert whole.uids == [3, 5]
    assert whole.prompt_cache[0].keys is keys
    assert len(batch) == 0
    assert batch.prompt_cache == []
    assert batch.prefill_step_size == 64
