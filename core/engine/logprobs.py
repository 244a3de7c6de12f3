"""Log-probabilities of chosen tokens and of the likeliest ones, read off a step's logits.

Letters: R rows that want them, V vocabulary, K likeliest tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import mlx.core as mx

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The log-probabilities of one step of one row, in nats."""

    chosen: float
    """Of the token that was chosen."""
    top: tuple[tuple[int, float], ...]
    """Token ids and log-probabilities of the likeliest ones, descending."""


class Readings:
    """Those of one step of several rows; 1 + K numbers a row come from the device, when asked for.

    Attributes:
        arrays: what is to be computed.
    """

    def __init__(self, logits: mx.array, tokens: mx.array, top: int) -> None:
        """Take what they are read off.

        Args:
            logits: not normalized. [R, V]
            tokens: the chosen ones. [R]
            top: K, at most V.
        """
        # Half precision would leave three digits, and a sum over V tokens fewer.
        logits = logits.astype(mx.float32)
        normalizer = mx.logsumexp(logits, axis=-1, keepdims=True)
        self._chosen = mx.take_along_axis(logits, tokens[:, None], axis=-1) - normalizer  # [R, 1]
        self.arrays = [self._chosen]
        if top:
            some = mx.argpartition(-logits, kth=top - 1, axis=-1)[:, :top]
            values = mx.take_along_axis(logits, some, axis=-1)
            order = mx.argsort(-values, axis=-1)
            self._ids = mx.take_along_axis(some, order, axis=-1)  # [R, K]
            self._values = mx.take_along_axis(values, order, axis=-1) - normalizer  # [R, K]
            self.arrays += [self._ids, self._values]

    def row(self, index: int, top: int) -> Reading:
        """Return one row's, with its `top` likeliest tokens."""
        chosen, *likeliest = (numbers[index] for numbers in self._numbers)
        ids, values = likeliest or ([], [])
        pairs = tuple(zip(ids[:top], values[:top], strict=True))
        return Reading(chosen=chosen[0], top=pairs)

    @cached_property
    def _numbers(self) -> list[Any]:
        return [array.tolist() for array in self.arrays]


@dataclass(frozen=True, kw_only=True)
class Pending:
    """One row's, before they are copied to the host."""

    readings: Readings
    """Of all rows of the step."""
    index: int
    """Which of them."""
    top: int
    """How many of the likeliest tokens it wants."""

    def read(self) -> Reading:
        """Wait for them."""
        return self.readings.row(self.index, self.top)


def read_rows(
    logits: mx.array, tokens: mx.array, wanted: Sequence[tuple[int, int]]
) -> list[Pending | None]:
    """Return what is to be read for each row of a batch.

    Args:
        logits: after biases and penalties, before temperature, filters and masks. [B, V]
        tokens: the chosen ones. [B]
        wanted: places of the rows that want log-probabilities, and how many of the likeliest.
    """
    batch, vocabulary = logits.shape
    if len(wanted) < batch:
        places = mx.array([row for row, _ in wanted])
        logits, tokens = logits[places], tokens[places]
    most = min(vocabulary, max(top for _, top in wanted))
    readings = Readings(logits, tokens, most)
    pending: list[Pending | None] = [None] * batch
    for index, (row, top) in enumerate(wanted):
        pending[row] = Pending(readings=readings, index=index, top=top)
    return pending
