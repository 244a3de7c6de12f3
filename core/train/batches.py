"""Which rows are computed together, and in which order. Pure Python.

Rows of like length share a batch, so that little is padded; the batches of an epoch are shuffled.
The order is a function of the seed and the position alone: whoever goes on at step n gets what an
unbroken run would have got.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BatchOrder:
    """The batches of a training."""

    lengths: tuple[int, ...]
    """Tokens of each row."""
    size: int
    """Rows in a batch; the last ones of an epoch may make a smaller one."""
    seed: int
    """Of the order."""

    @property
    def per_epoch(self) -> int:
        """Batches that hold each row once."""
        return -(-len(self.lengths) // self.size)

    def batch(self, position: int) -> tuple[int, ...]:
        """Return the rows of a batch.

        Args:
            position: batches that went before it in the whole training, from 0.
        """
        epoch, place = divmod(position, self.per_epoch)
        return _epoch(self, epoch)[place]

    def step(self, step: int, batches: int) -> list[tuple[int, ...]]:
        """Return the batches whose gradients make one step.

        Args:
            step: from 1.
            batches: of one step.
        """
        first = (step - 1) * batches
        return [self.batch(position) for position in range(first, first + batches)]


_LAST: dict[tuple[int, int], tuple[BatchOrder, tuple[tuple[int, ...], ...]]] = {}


def _epoch(order: BatchOrder, epoch: int) -> tuple[tuple[int, ...], ...]:
    """Return the batches of an epoch; the last one asked for is kept."""
    key = (id(order), epoch)
    if key not in _LAST or _LAST[key][0] is not order:
        _LAST.clear()
        _LAST[key] = (order, make_epoch(order.lengths, order.size, order.seed, epoch))
    return _LAST[key][1]


def make_epoch(
    lengths: Sequence[int], size: int, seed: int, epoch: int
) -> tuple[tuple[int, ...], ...]:
    """Return all batches of one epoch, each row in exactly one of them."""
    dice = random.Random(seed * 1_000_003 + epoch)
    rows = list(range(len(lengths)))
    dice.shuffle(rows)  # so that rows of one length meet others in each epoch
    rows.sort(key=lambda row: lengths[row])
    batches = [tuple(rows[start : start + size]) for start in range(0, len(rows), size)]
    dice.shuffle(batches)
    return tuple(batches)


def in_order(lengths: Sequence[int], size: int) -> tuple[tuple[int, ...], ...]:
    """Return batches of rows by their length, for a measurement."""
    rows = sorted(range(len(lengths)), key=lambda row: lengths[row])
    return tuple(tuple(rows[start : start + size]) for start in range(0, len(rows), size))
