"""Biases and penalties on logits, as mlx-lm's `make_logits_processors` computes them.

In its order: logit bias, then the repetition, presence and frequency penalties, each over a window
of recent tokens. Rows are shaped together, each with its own strength and window. What a step does
in Python does not grow with a row's history.

Letters: B rows, R rows of them that are shaped, W tokens of the longest window, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from core.engine.request import SamplingParams

# A larger bias would be infinite in half precision; it decides as much as this one.
_LARGEST_BIAS = 3e4
_NOTHING = -1  # where a row's window is shorter than the longest


class TokenHistory:
    """The tokens of a row so far, to look back at; adding one takes the same time at any length."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._length = len(tokens)
        self._buffer = np.empty(max(256, 2 * self._length), dtype=np.int32)
        self._buffer[: self._length] = tokens

    def __len__(self) -> int:
        return self._length

    def append(self, token: int) -> None:
        """Add a token."""
        if self._length == len(self._buffer):
            self._buffer = np.concatenate([self._buffer, np.empty_like(self._buffer)])
        self._buffer[self._length] = token
        self._length += 1

    def last(self, count: int) -> NDArray[np.int32]:
        """Return the last `count` tokens, or all where there are fewer. A view."""
        return self._buffer[max(0, self._length - count) : self._length]


class RowShaping:
    """What is to be done to the logits of one row.

    Attributes:
        bias: pairs of token id and what is added to its logit.
        penalties: strength and window (tokens; 0: all) by kind of penalty, those that are on.
        history: the row's tokens up to the one whose successor is computed next, without it.
    """

    def __init__(self, params: SamplingParams, tokens: Sequence[int]) -> None:
        """Take what the row asks for.

        Args:
            params: every field set.
            tokens: prompt and answer so far, all but the last.
        """
        self.bias = params.logit_bias or ()
        self.penalties = wanted_penalties(params)
        self.history = TokenHistory(tokens if self.penalties else ())

    def hear(self, token: int) -> None:
        """Go on by one token."""
        if self.penalties:
            self.history.append(token)


def wanted_penalties(params: SamplingParams) -> dict[type[Penalty], tuple[float, int]]:
    """Return the penalties that are on, with strength and window, in the order they apply."""
    wishes: list[tuple[type[Penalty], float | None, int | None]] = [
        (RepetitionPenalty, params.repetition_penalty, params.repetition_context_size),
        (PresencePenalty, params.presence_penalty, params.presence_context_size),
        (FrequencyPenalty, params.frequency_penalty, params.frequency_context_size),
    ]
    return {
        kind: (strength, size or 0)
        for kind, strength, size in wishes
        if strength and not (kind is RepetitionPenalty and strength == 1)
    }


def make_shaping(params: SamplingParams, tokens: Sequence[int]) -> RowShaping | None:
    """Return what is to be done to a row's logits, or None: nothing."""
    wanted = params.logit_bias or wanted_penalties(params)
    return RowShaping(params, tokens) if wanted else None


class BatchShaping:
    """Shapes the logits of a batch; made once for as long as its rows stay the same."""

    def __init__(self, rows: Sequence[tuple[int, RowShaping]], vocabulary: int) -> None:
        """Take the rows.

        Args:
            rows: a row's place in the batch, and what it asks for.
            vocabulary: V. A bias for a token outside it is left out: there is no such logit.
        """
        self._bias = _Bias.of(rows, vocabulary)
        kinds = (RepetitionPenalty, PresencePenalty, FrequencyPenalty)
        members = {kind: [pair for pair in rows if kind in pair[1].penalties] for kind in kinds}
        self._penalties = [kind(pairs) for kind, pairs in members.items() if pairs]

    def __call__(self, logits: mx.array, current: mx.array) -> mx.array:
        """Return the shaped logits.

        Args:
            logits: [B, V]; may be changed.
            current: the tokens that they follow, which the histories do not hold yet. [B]
        """
        if self._bias:
            logits = self._bias(logits)
        for penalty in self._penalties:
            logits = penalty(logits, current)
        return logits


class _Bias:
    """Adds a number to the logits of some tokens of some rows."""

    def __init__(self, triples: Sequence[tuple[int, int, float]]) -> None:
        rows, tokens, amounts = zip(*triples, strict=True)
        self._rows, self._tokens, self._amounts = map(mx.array, (rows, tokens, amounts))

    @classmethod
    def of(cls, rows: Sequence[tuple[int, RowShaping]], vocabulary: int) -> _Bias | None:
        """Return the bias of these rows, or None."""
        triples = [
            (row, token, max(-_LARGEST_BIAS, min(_LARGEST_BIAS, amount)))
            for row, shaping in rows
            for token, amount in shaping.bias
            if 0 <= token < vocabulary
        ]
        return cls(triples) if triples else None

    def __call__(self, logits: mx.array) -> mx.array:
        amounts = self._amounts.astype(logits.dtype)
        return logits.at[self._rows, self._tokens].add(amounts)


class Penalty(ABC):
    """Makes recent tokens less likely, for some rows of a batch."""

    def __init__(self, rows: Sequence[tuple[int, RowShaping]]) -> None:
        mine = [shaping.penalties[type(self)] for _, shaping in rows]
        self._histories = [shaping.history for _, shaping in rows]
        self._sizes = [size for _, size in mine]
        self._rows = mx.array([row for row, _ in rows])[:, None]  # [R, 1]
        self._strength = mx.array([strength for strength, _ in mine])[:, None]  # [R, 1]

    def __call__(self, logits: mx.array, current: mx.array) -> mx.array:
        """Return the logits with the penalty. [B, V] → [B, V]."""
        now = current.astype(mx.int32)[self._rows]  # [R, 1]
        before = mx.array(self._before())  # [R, W - 1]
        absent = before == _NOTHING
        # There a row's own token stands once more: any other might belong to nobody's window.
        tokens = mx.concatenate([mx.where(absent, now, before), now], axis=-1)  # [R, W]
        return self._apply(logits, tokens, absent)

    def _before(self) -> NDArray[np.int32]:
        """Return the windows without the token of this step, as [R, W - 1]."""
        views = [
            history.last(size - 1 if size else len(history))
            for history, size in zip(self._histories, self._sizes, strict=True)
        ]
        windows = np.full((len(views), max(map(len, views))), _NOTHING, dtype=np.int32)
        for line, view in zip(windows, views, strict=True):
            line[: len(view)] = view
        return windows

    @abstractmethod
    def _apply(self, logits: mx.array, tokens: mx.array, absent: mx.array) -> mx.array:
        """Return the logits with the penalty.

        Args:
            logits: [B, V].
            tokens: the windows; a token may stand there several times. [R, W]
            absent: which of the first W - 1 only fill a window up. [R, W - 1]
        """


class RepetitionPenalty(Penalty):
    """Divides positive and multiplies negative logits (Keskar et al. 2019, arXiv:1909.05858)."""

    def _apply(self, logits: mx.array, tokens: mx.array, absent: mx.array) -> mx.array:
        del absent
        strength = self._strength.astype(logits.dtype)
        picked = logits[self._rows, tokens]
        # A token that stands there several times is written several times, always the same.
        logits[self._rows, tokens] = mx.where(picked < 0, picked * strength, picked / strength)
        return logits


class PresencePenalty(Penalty):
    """Subtracts once from each token of the window."""

    def _apply(self, logits: mx.array, tokens: mx.array, absent: mx.array) -> mx.array:
        del absent
        picked = logits[self._rows, tokens]
        logits[self._rows, tokens] = picked - self._strength.astype(logits.dtype)
        return logits


class FrequencyPenalty(Penalty):
    """Subtracts from a token once for every time it stands in the window."""

    def _apply(self, logits: mx.array, tokens: mx.array, absent: mx.array) -> mx.array:
        counted = mx.where(absent, 0.0, self._strength)
        amounts = mx.concatenate([counted, self._strength], axis=-1).astype(logits.dtype)
        return logits.at[self._rows, tokens].subtract(amounts)
