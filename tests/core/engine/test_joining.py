"""Rows joined with fewer copies are the rows that mlx-lm would have joined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache
from mlx_lm.utils import load_model

from core.engine import joining
from core.engine.batch import BatchRunner
from core.engine.joining import JoinRoom, join_caches
from core.engine.loader import _BUILT_IN, merge_sampling
from core.engine.prefill import LeanPromptBatch
from core.engine.request import SamplingParams
from core.engine.sampler import greedy
from tests.tiny import make_model


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


@pytest.mark.parametrize(("first", "second"), CASES)
@pytest.mark.parametrize("shares", [(0.3, 0.7, 1.0), (0.5,), (1.0, 1.0)])
def test_memory_that_was_taken_before_changes_nothing(
    first: dict[str, Any],
    second: dict[str, Any],
    shares: tuple[float, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joining, "_WORTH", 0)
    expected = join_caches([cache(**first)], [cache(**second)])
    mine, others, room = [cache(**first)], [cache(**second)], JoinRoom()
    for share in shares:
        room.prepare(mine, others, share)
    whole = expected[0].keys.nbytes + expected[0].values.nbytes
    assert room.nbytes == whole * shares[-1]
    joined = join_caches(mine, others, room)
    for ours, theirs in zip(facts(joined[0]), facts(expected[0]), strict=True):
        assert np.array_equal(ours, theirs)
    assert room.nbytes == 0


def test_memory_is_taken_for_much_and_for_the_rows_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = JoinRoom()
    room.prepare([cache(2, 4)], [cache(1, 9)], 1.0)
    assert room.nbytes == 0
    monkeypatch.setattr(joining, "_WORTH", 0)
    room.prepare([cache(2, 4)], [cache(1, 9)], 1.0)
    assert room.nbytes == 2 * 3 * 2 * 9 * 4 * 4
    room.prepare([cache(1, 4)], [cache(1, 9)], 0.5)  # a row has left
    assert room.nbytes == 1 * 2 * 2 * 9 * 4 * 4
    (joined,) = join_caches([cache(3, 4)], [cache(1, 9)], room)  # others have come
    assert joined.keys.shape == (4, 2, 9, 4)
    assert room.nbytes == 0


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


def run_two(model: Any, *, leave: bool) -> tuple[dict[int, list[int]], list[int]]:
    """Let a long prompt join a row that decodes; return tokens by row, and the room at each step.

    Args:
        model: the model.
        leave: whether the long row goes before it joins.
    """
    runner = BatchRunner(model, eos_ids=(), cap=4, most_prefill_tokens=512)
    sampling = merge_sampling(SamplingParams(temperature=0.0), _BUILT_IN)
    found: dict[int, list[int]] = {}
    rooms = []

    def steps(count: int) -> None:
        for _ in range(count):
            for token in runner.step(16).tokens:
                found.setdefault(token.row, []).append(token.token)
            rooms.append(runner._room.nbytes)

    runner.insert([[1, 2, 3]], max_tokens=40, sampling=sampling)
    steps(3)
    long = runner.insert([list(range(100))], max_tokens=5, sampling=sampling)
    steps(5)
    if leave:
        runner.remove(long)
    steps(20)
    runner.close()
    return found, rooms


@pytest.mark.parametrize("leave", [False, True])
def test_a_long_prompt_joins_in_memory_that_was_taken_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, leave: bool
) -> None:
    make_model(tmp_path)
    model, _ = load_model(tmp_path)
    plain, without = run_two(model, leave=leave)
    assert not any(without)
    monkeypatch.setattr(joining, "_WORTH", 0)
    found, rooms = run_two(model, leave=leave)
    assert found == plain
    grown = [room for room in rooms if room]
    assert grown
    assert grown == sorted(grown)
    assert rooms[-1] == 0
