"""Choosing tokens: one sampler per row, reproducible by its seed in any company.

The filters and their order are mlx-lm's (`sample_utils.make_sampler`: top-p, min-p, XTC, top-k,
then temperature), written without `mx.compile`: there every new parameter value compiles a new
kernel, which on a CPU is a second of g++ for all rows. Randomness is counted, not global: the key
of a row's n-th token depends on its seed and n alone.

Letters: B rows, G rows of them that are drawn together, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.engine.request import SamplingParams, ToneCurve

    Sampler = Callable[[mx.array], mx.array]


# Below it float32 logits would overflow, and tell no two tokens apart that are not equal.
_COLDEST = 1e-6
# Keeps XTC's coin apart from the noise of the draw: both count the same tokens.
_COIN = 0x9E3779B9


def greedy(logits: mx.array) -> mx.array:
    """Take the likeliest token. [B, V] → [B]. One object for all rows, so that they share it."""
    return mx.argmax(logits, axis=-1)


def make_sampler(
    params: SamplingParams, *, drawn: int = 0, exempt: frozenset[int] = frozenset()
) -> Sampler:
    """Return the sampler of one row.

    Args:
        params: every field set.
        drawn: tokens that the row has drawn before.
        exempt: tokens that XTC never drops: EOS and the newline, as in `mlx_lm.server`.
    """
    if not params.temperature or params.temperature < _COLDEST:
        return greedy
    if params.seed is None:
        raise ValueError("a row that samples needs its seed drawn before")
    return RowSampler(params, seed=params.seed, drawn=drawn, exempt=exempt)


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Which steps lead from logits to a draw. Rows with the same ones are drawn together."""

    tone_curve: bool
    """Whether a tone curve is applied."""
    top_p: bool
    """Whether top-p filters."""
    min_p: bool
    """Whether min-p filters."""
    xtc: bool
    """Whether XTC may filter."""
    top_k: int
    """How many tokens top-k keeps; 0: all."""

    @classmethod
    def of(cls, params: SamplingParams) -> Steps:
        """Return those that a row asks for."""
        return cls(
            tone_curve=bool(params.tone_curve and params.tone_curve.enabled),
            top_p=0 < (params.top_p or 0) < 1,
            min_p=bool(params.min_p),
            xtc=bool(params.xtc_probability),
            top_k=params.top_k or 0,
        )


class RowSampler:
    """Draws tokens for one row from its filtered distribution.

    Attributes:
        params: what it filters by.
        steps: which filters these are.
        exempt: tokens that XTC never drops.
    """

    def __init__(
        self, params: SamplingParams, *, seed: int, drawn: int, exempt: frozenset[int]
    ) -> None:
        self.params = params
        self.steps = Steps.of(params)
        self.exempt = exempt
        self._seed = fold_seed(seed)
        self._count = drawn

    def __call__(self, logits: mx.array) -> mx.array:
        """Draw a token. [1, V] → [1]."""
        return DrawTogether([self])(logits)

    def next_key(self) -> tuple[int, int]:
        """Return the key of the next draw: with Threefry any two positions are independent."""
        self._count += 1
        return self._seed, self._count - 1


class DrawTogether:
    """Draws for rows that take the same steps, each with values of its own.

    Made once for as long as the rows stay the same.
    """

    def __init__(self, rows: Sequence[RowSampler]) -> None:
        """Take the rows; there is at least one."""
        self._rows = rows
        self.filters = Filters([row.params for row in rows], exempt=rows[0].exempt)
        self._temperature = column([row.params.temperature for row in rows])

    def __call__(self, logits: mx.array) -> mx.array:
        """Draw a token for each row. [G, V] → [G].

        The Gumbel-max trick, as `mx.random.categorical` does it, with a key for each row: what a
        row draws does not depend on the others.
        """
        keys = mx.array([row.next_key() for row in self._rows], dtype=mx.uint32)  # [G, 2]
        kept = self.filters(logits, keys) / self._temperature
        noise = mx.vmap(partial(_gumbel, logits.shape[-1]))(keys)  # [G, V]
        return mx.argmax(kept + noise, axis=-1)


class DrawRows:
    """Chooses a token for every row of a batch, those that take the same steps at once.

    Made once for as long as the rows stay the same.
    """

    def __init__(self, samplers: Sequence[Sampler]) -> None:
        """Take the samplers, one a row."""
        groups: dict[object, list[int]] = {}
        for row, sampler in enumerate(samplers):
            alike = sampler.steps if isinstance(sampler, RowSampler) else sampler
            groups.setdefault(alike, []).append(row)
        self._draws = [_draw([samplers[row] for row in rows]) for rows in groups.values()]
        self._rows = [mx.array(rows) for rows in groups.values()]
        order = [row for rows in groups.values() for row in rows]
        self._places = mx.array(sorted(range(len(order)), key=order.__getitem__))

    def __call__(self, logits: mx.array) -> mx.array:
        """Choose a token for every row. [B, V] → [B]."""
        if len(self._draws) == 1:
            return self._draws[0](logits)
        chosen = [draw(logits[rows]) for draw, rows in zip(self._draws, self._rows, strict=True)]
        return mx.concatenate(chosen)[self._places]


def _draw(alike: Sequence[Sampler]) -> Sampler:
    rows = [sampler for sampler in alike if isinstance(sampler, RowSampler)]
    return DrawTogether(rows) if rows else alike[0]


def _gumbel(vocabulary: int, key: mx.array) -> mx.array:
    return mx.random.gumbel((vocabulary,), key=key)


def _flip(key: mx.array) -> mx.array:
    return mx.random.uniform(key=key)


class Filters:
    """Sets the logits of tokens that are not to be drawn to -inf, for rows with the same steps."""

    def __init__(self, rows: Sequence[SamplingParams], *, exempt: frozenset[int]) -> None:
        """Take what the rows ask for.

        Args:
            rows: their parameters; all take the steps of the first.
            exempt: tokens that XTC never drops.
        """
        self._steps = Steps.of(rows[0])
        self._exempt = sorted(exempt)
        self._top_p = column([row.top_p for row in rows])
        # A floor for logits; where min-p is off it is never looked at.
        self._min_p = column([math.log(row.min_p) if row.min_p else 0.0 for row in rows])
        self._xtc_probability = column([row.xtc_probability for row in rows])
        self._xtc_threshold = column([row.xtc_threshold for row in rows])
        curves = [row.tone_curve for row in rows if row.tone_curve]
        self._tone_curve = ToneCurves(curves) if self._steps.tone_curve else None

    def __call__(self, logits: mx.array, keys: mx.array) -> mx.array:
        """Return the filtered logits. [G, V] → [G, V].

        Args:
            logits: not necessarily normalized.
            keys: of this draw. [G, 2], uint32
        """
        steps, vocabulary = self._steps, logits.shape[-1]
        if self._tone_curve:
            logits = self._tone_curve(logits)
        if steps.top_p:
            logits = _keep_top_p(logits, self._top_p)
        if steps.min_p:
            logits = _keep_min_p(logits, self._min_p)
        if steps.xtc:
            logits = self._exclude_top_choices(logits, keys)
        if 0 < steps.top_k < vocabulary:
            logits = _keep_top_k(logits, steps.top_k)
        return logits

    def _exclude_top_choices(self, logits: mx.array, keys: mx.array) -> mx.array:
        """Drop, now and then, all tokens above the threshold but the least likely of them (XTC)."""
        probs = mx.softmax(logits.astype(mx.float32), axis=-1)
        above = mx.where(probs > self._xtc_threshold, probs, math.inf)
        dropped = probs > above.min(axis=-1, keepdims=True)
        exempt = [token for token in self._exempt if token < logits.shape[-1]]
        if exempt:
            dropped[:, mx.array(exempt)] = False
        coins = mx.vmap(_flip)(keys ^ mx.array([_COIN, 0], dtype=mx.uint32))[:, None]  # [G, 1]
        dropped = mx.logical_and(dropped, coins <= self._xtc_probability)
        return mx.where(dropped, -math.inf, logits)


class ToneCurves:
    """Bends logits by a tone curve, for several rows: monotone, so that no two tokens swap places.

    With z = logit - (greatest logit - c), in nats around the pivot c below the likeliest token:

        g(z) = -w - t ln(1 + (-z - w) / t)    for z < -w, the toe
        g(z) = z                              for |z| <= w, the plateau
        g(z) = w + s ln(1 + (z - w) / s)      for z > w, the shoulder

    where w is the width, s the shoulder, t the toe and c the pivot offset. The slope is 1 on the
    plateau and falls off on both sides; temperature divides g as it divides logits. The formula is
    that of mlx-bun's `hlg` (joshuarossi/mlx-bun, docs/archive/hlg-sampling.md), which replaces the
    other filters there; here those that are asked for work on the bent logits.
    """

    def __init__(self, curves: Sequence[ToneCurve]) -> None:
        """Take the curves, one a row, every field set."""
        self._width = column([curve.width for curve in curves])
        # The limit at 0 is a flat line, which a tiny value draws without dividing 0 by 0.
        self._shoulder = mx.maximum(column([curve.shoulder for curve in curves]), _COLDEST)
        self._toe = mx.maximum(column([curve.toe for curve in curves]), _COLDEST)
        self._offset = column([curve.pivot_offset for curve in curves])

    def __call__(self, logits: mx.array) -> mx.array:
        """Return the bent logits; -inf stays -inf. [G, V] → [G, V]."""
        pivot = mx.max(logits, axis=-1, keepdims=True) - self._offset
        z = logits - pivot
        plateau = mx.clip(z, -self._width, self._width)
        above = mx.maximum(z - self._width, 0) / self._shoulder
        below = mx.maximum(-z - self._width, 0) / self._toe
        return plateau + self._shoulder * mx.log1p(above) - self._toe * mx.log1p(below)


def column(values: Sequence[float | None]) -> mx.array:
    """Return one number a row, as float32 [G, 1]."""
    return mx.array([value or 0.0 for value in values], dtype=mx.float32)[:, None]


def _keep_top_p(logits: mx.array, top_p: mx.array) -> mx.array:
    """Keep the smallest set of likeliest tokens whose mass reaches `top_p`; at least one."""
    ascending = mx.sort(logits, axis=-1)
    # Relative to the likeliest: logits need not be normalized, and nothing overflows.
    probs = mx.exp((ascending - ascending[..., -1:]).astype(mx.float32))
    above = mx.cumsum(probs, axis=-1, reverse=True, inclusive=False)  # mass of likelier tokens
    total = above[..., :1] + probs[..., :1]
    dropped = (above >= top_p * total).sum(axis=-1, keepdims=True)
    threshold = mx.take_along_axis(ascending, dropped, axis=-1)
    return mx.where(logits < threshold, -math.inf, logits)


def _keep_min_p(logits: mx.array, log_min_p: mx.array) -> mx.array:
    """Keep tokens whose probability is at least so many times the likeliest one's."""
    floor = mx.max(logits, axis=-1, keepdims=True) + log_min_p
    return mx.where(logits < floor, -math.inf, logits)


def _keep_top_k(logits: mx.array, top_k: int) -> mx.array:
    """Keep exactly `top_k` tokens, as mlx-lm does, however they tie."""
    rest = mx.argpartition(-logits, kth=top_k - 1, axis=-1)[..., top_k:]
    nothing = mx.array(-math.inf, dtype=logits.dtype)
    return mx.put_along_axis(logits, rest, nothing, axis=-1)


def fold_seed(seed: int) -> int:
    """Return a 32-bit number for any integer; seeds under 2^32 keep themselves."""
    return (seed ^ (seed >> 32) * 0x9E3779B1) & 0xFFFFFFFF if seed >> 32 else seed
