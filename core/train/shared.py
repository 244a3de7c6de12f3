"""Pairs whose prompt is computed once: both answers go on from the same keys and values.

A pair's two sequences begin alike, and what a transformer computes for a token depends on those
before it alone. So the common beginning runs once, and its keys and values are the cache that the
two answers run on, with gradients flowing through it. The states come out as if both sequences had
run whole: the loss does not know the difference.

`B` pairs, `T` tokens of the longest sequence, `P` common ones, `D` hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import ConcatenateKVCache

from core.engine.split import Split
from core.train.encode import Encoded, EncodedPair

_NEAR = 1e-3  # of the largest state: what two ways of the same may differ by


def shared_states(split: Split, pairs: Sequence[EncodedPair]) -> mx.array:
    """Return the states of both sequences of each pair [2 B, T - 1, D], the chosen ones first."""
    longest = max(len(part.tokens) for pair in pairs for part in (pair.chosen, pair.rejected)) - 1
    found = [_pair_states(split, pair) for pair in pairs]
    rows = [both[index] for index in (0, 1) for both in found]
    return mx.stack([_filled(row, longest) for row in rows])


def can_share(split: Split) -> bool:
    """Return whether an architecture computes the same this way: found by trying."""
    prompt, answers = (1, 2, 3, 4, 5), ((6, 7, 8, 9), (2, 9))
    parts = [Encoded(tokens=(*prompt, *a), response=bytes(5 + len(a))) for a in answers]
    pair = EncodedPair(chosen=parts[0], rejected=parts[1])
    try:
        states = shared_states(split, [pair])
    # A cache of another kind fails in a way of its own.
    except Exception:
        return False
    for row, part in enumerate(parts):
        wanted = split.body(mx.array([part.tokens[:-1]]))[0]
        error = mx.abs(states[row, : wanted.shape[0]] - wanted).max()
        if not bool((error <= _tolerance(wanted) * mx.abs(wanted).max()).item()):
            return False
    return True


def _tolerance(states: mx.array) -> float:
    return _NEAR if states.dtype == mx.float32 else 30 * _NEAR


def _pair_states(split: Split, pair: EncodedPair) -> tuple[mx.array, mx.array]:
    """Return the states before each token but the first, of the chosen and the rejected one."""
    chosen, rejected = pair.chosen.tokens, pair.rejected.tokens
    common = _common(chosen, rejected)
    caches = [ConcatenateKVCache() for _ in split.layers]
    start = split.body(mx.array([chosen[:common]]), cache=caches)[0]  # [P, D]
    rests = (chosen[common:-1], rejected[common:-1])
    width = max(map(len, rests))
    if not width:
        return start, start
    tokens = np.zeros((2, width), np.int32)
    for row, rest in enumerate(rests):
        tokens[row, : len(rest)] = rest
    ends = split.body(mx.array(tokens), cache=[_doubled(cache) for cache in caches])
    states = [mx.concatenate([start, ends[row, : len(rest)]]) for row, rest in enumerate(rests)]
    return states[0], states[1]


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens both begin with, the last of neither among them."""
    most = min(len(left), len(right)) - 1
    return next((i for i in range(most) if left[i] != right[i]), most)


def _doubled(cache: Any) -> Any:
    twice = ConcatenateKVCache()
    twice.state = tuple(mx.concatenate([each, each]) for each in cache.state)
    return twice


def _filled(states: mx.array, length: int) -> mx.array:
    missing = length - states.shape[0]
    return mx.pad(states, [(0, missing), (0, 0)]) if missing else states
