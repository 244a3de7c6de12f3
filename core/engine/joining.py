"""Rows that join or leave a batch, with fewer copies than mlx-lm makes.

A batch's KV is one array a layer, padded to its longest row, so a long row that joins short ones
makes a large copy, for which every stream waits. mlx-lm pads, then concatenates, and copies a
prompt that has just been computed before that; here each row is written once, where it belongs.
Measured on a CPU, 2,000 tokens joining 4 rows: 0.25 s of copies instead of 0.42 s. Of these, 0.2 s
are the first touch of fresh memory, which the system clears page by page; it is taken before, while
the prompt is computed, and 0.02 s are left.

Letters: B rows, H heads, T tokens, D head size.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache

_NAMES = ("keys", "values")
_WORTH = 32 * 10**6  # bytes: fewer are there in no time

Kind = tuple[tuple[int, ...], mx.Dtype]
"""An array's shape and type."""


class JoinRoom:
    """Memory for rows that are about to join a batch, taken step by step before they do."""

    def __init__(self) -> None:
        """Begin with none."""
        self._arrays: dict[Kind, list[mx.array]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes that are held."""
        return sum(array.nbytes for arrays in self._arrays.values() for array in arrays)

    def prepare(self, mine: list[Any], others: list[Any], share: float) -> None:
        """Take a share of the memory that `join_caches` will ask for, and keep it.

        Args:
            mine: the caches of the batch.
            others: those of the rows to come, at their final size.
            share: from 0 to 1.
        """
        wanted = Counter(_kinds(mine, others))
        if sum(math.prod(shape) * dtype.size * n for (shape, dtype), n in wanted.items()) < _WORTH:
            return
        if not self._arrays.keys() <= wanted.keys():
            self.clear()  # rows have come or gone
        new: list[mx.array] = []
        for kind, count in wanted.items():
            held = self._arrays.setdefault(kind, [])
            more = [mx.zeros(*kind) for _ in range(math.ceil(share * count) - len(held))]
            held += more
            new += more
        mx.eval(new)

    def take(self, shape: tuple[int, ...], dtype: mx.Dtype) -> mx.array:
        """Return an array of zeros, one that is held if there is one."""
        held = self._arrays.get((shape, dtype))
        return held.pop() if held else mx.zeros(shape, dtype)

    def clear(self) -> None:
        """Give all of it back."""
        self._arrays.clear()


def join_caches(mine: list[Any], others: list[Any], room: JoinRoom | None = None) -> list[Any]:
    """Add rows to the caches of a batch, one a layer, and return them.

    Args:
        mine: the caches of the batch.
        others: those of the rows.
        room: memory that was taken for it.
    """
    if not mine or not others:
        return mine or others
    room = room or JoinRoom()
    for cache, other in zip(mine, others, strict=True):
        if _plain(cache, other):
            _join(cache, other, room)
        else:
            cache.extend(other)
    room.clear()
    return mine


def _plain(cache: Any, other: Any) -> bool:
    plain = type(cache) is BatchKVCache and type(other) is BatchKVCache
    return plain and cache.keys is not None and other.keys is not None


def _kinds(mine: list[Any], others: list[Any]) -> Iterator[Kind]:
    """Tell what arrays a join will make."""
    for cache, other in zip(mine, others, strict=True):
        if _plain(cache, other):
            for name in _NAMES:
                yield _kind(getattr(cache, name), getattr(other, name), _size(cache, other))


def _kind(first: mx.array, second: mx.array, size: int) -> Kind:
    rows, heads, _, width = first.shape
    return (rows + second.shape[0], heads, size, width), first.dtype


def _size(cache: Any, other: Any) -> int:
    """Return the tokens that there is place for once both are one."""
    size: int = max(cache._idx, other._idx, cache.keys.shape[2], other.keys.shape[2])
    return size


def _join(cache: Any, other: Any, room: JoinRoom) -> None:
    """Do as `BatchKVCache.extend`: rows end at the same index, padded on the left."""
    end, size = max(cache._idx, other._idx), _size(cache, other)
    for name in _NAMES:
        first, second = getattr(cache, name), getattr(other, name)
        both = room.take(*_kind(first, second, size))
        rows = first.shape[0]
        both[:rows, :, end - cache._idx : end] = first[..., : cache._idx, :]
        both[rows:, :, end - other._idx : end] = second[..., : other._idx, :]
        setattr(cache, name, both)
    cache.left_padding = mx.concatenate(
        [cache.left_padding + (end - cache._idx), other.left_padding + (end - other._idx)]
    )
    cache.offset = mx.concatenate([cache.offset, other.offset])
    cache._idx = end
