"""Choosing tokens: one sampler per row, reproducible by its seed in any company.

The filters and their order are mlx-lm's (`sample_utils.make_sampler`: top-p, min-p, top-k, then
temperature), written without `mx.compile`: there every new parameter value compiles a new kernel,
which on a CPU is a second of g++ for all rows. Randomness is counted, not global: the key of a
row's n-th token depends on its seed and n alone.

Letters: B rows, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.engine.request import SamplingParams

    Sampler = Callable[[mx.array], mx.array]


# Below it float32 logits would overflow, and tell no two tokens apart that are not equal.
_COLDEST = 1e-6


def greedy(logits: mx.array) -> mx.array:
    """Take the likeliest token. [B, V] → [B]. One object for all rows, so that they share it."""
    return mx.argmax(logits, axis=-1)


def make_sampler(params: SamplingParams, *, drawn: int = 0) -> Sampler:
    """Return the sampler of one row.

    Args:
        params: every field set.
        drawn: tokens that the row has drawn before.
    """
    if not params.temperature or params.temperature < _COLDEST:
        return greedy
    if params.seed is None:
        raise ValueError("a row that samples needs its seed drawn before")
    return RowSampler(params, temperature=params.temperature, seed=params.seed, drawn=drawn)


class RowSampler:
    """Draws tokens for one row from its filtered distribution.

    Attributes:
        params: what it filters by, without the seed; rows with equal ones can be drawn together.
    """

    def __init__(
        self, params: SamplingParams, *, temperature: float, seed: int, drawn: int
    ) -> None:
        self.params = replace(params, seed=None)
        self.temperature = temperature
        self._seed = fold_seed(seed)
        self._count = drawn

    def __call__(self, logits: mx.array) -> mx.array:
        """Draw a token. [1, V] → [1]."""
        return draw_together(logits, [self])

    def next_key(self) -> tuple[int, int]:
        """Return the key of the next draw: with Threefry any two positions are independent."""
        self._count += 1
        return self._seed, self._count - 1


def draw_together(logits: mx.array, rows: Sequence[RowSampler]) -> mx.array:
    """Draw a token for each of several rows that filter alike. [B, V] → [B].

    The Gumbel-max trick, as `mx.random.categorical` does it, with a key for each row: what a row
    draws does not depend on the others.
    """
    kept = filter_logits(logits, rows[0].params) / rows[0].temperature
    keys = mx.array([row.next_key() for row in rows], dtype=mx.uint32)  # [B, 2]
    noise = mx.vmap(partial(_gumbel, logits.shape[-1]))(keys)  # [B, V]
    return mx.argmax(kept + noise, axis=-1)


def sample_rows(logits: mx.array, samplers: Sequence[Sampler]) -> mx.array:
    """Choose a token for every row, those that choose alike at once. [B, V] → [B].

    Args:
        logits: of all rows.
        samplers: one a row.
    """
    groups: dict[object, list[int]] = {}
    for row, sampler in enumerate(samplers):
        alike = sampler.params if isinstance(sampler, RowSampler) else sampler
        groups.setdefault(alike, []).append(row)
    if len(groups) == 1:
        return _sample_group(logits, samplers)
    chosen = [
        _sample_group(logits[mx.array(rows)], [samplers[row] for row in rows])
        for rows in groups.values()
    ]
    order = [row for rows in groups.values() for row in rows]
    places = sorted(range(len(order)), key=order.__getitem__)
    return mx.concatenate(chosen)[mx.array(places)]


def _sample_group(logits: mx.array, samplers: Sequence[Sampler]) -> mx.array:
    rows = [sampler for sampler in samplers if isinstance(sampler, RowSampler)]
    return draw_together(logits, rows) if rows else samplers[0](logits)


def _gumbel(vocabulary: int, key: mx.array) -> mx.array:
    return mx.random.gumbel((vocabulary,), key=key)


def filter_logits(logits: mx.array, params: SamplingParams) -> mx.array:
    """Set the logits of tokens that are not to be drawn to -inf. [B, V] → [B, V]."""
    vocabulary = logits.shape[-1]
    if params.top_p and params.top_p < 1:
        logits = _keep_top_p(logits, params.top_p)
    if params.min_p:
        logits = _keep_min_p(logits, params.min_p)
    if params.top_k and params.top_k < vocabulary:
        logits = _keep_top_k(logits, params.top_k)
    return logits


def _keep_top_p(logits: mx.array, top_p: float) -> mx.array:
    """Keep the smallest set of likeliest tokens whose mass reaches `top_p`; at least one."""
    ascending = mx.sort(logits, axis=-1)
    # Relative to the likeliest: logits need not be normalized, and nothing overflows.
    probs = mx.exp((ascending - ascending[..., -1:]).astype(mx.float32))
    above = mx.cumsum(probs, axis=-1, reverse=True, inclusive=False)  # mass of likelier tokens
    total = above[..., :1] + probs[..., :1]
    dropped = (above >= top_p * total).sum(axis=-1, keepdims=True)
    threshold = mx.take_along_axis(ascending, dropped, axis=-1)
    return mx.where(logits < threshold, -math.inf, logits)


def _keep_min_p(logits: mx.array, min_p: float) -> mx.array:
    """Keep tokens whose probability is at least `min_p` of the likeliest one's."""
    floor = mx.max(logits, axis=-1, keepdims=True) + math.log(min_p)
    return mx.where(logits < floor, -math.inf, logits)


def _keep_top_k(logits: mx.array, top_k: int) -> mx.array:
    """Keep exactly `top_k` tokens, as mlx-lm does, however they tie."""
    rest = mx.argpartition(-logits, kth=top_k - 1, axis=-1)[..., top_k:]
    nothing = mx.array(-math.inf, dtype=logits.dtype)
    return mx.put_along_axis(logits, rest, nothing, axis=-1)


def fold_seed(seed: int) -> int:
    """Return a 32-bit number for any integer; seeds under 2^32 keep themselves."""
    return (seed ^ (seed >> 32) * 0x9E3779B1) & 0xFFFFFFFF if seed >> 32 else seed
