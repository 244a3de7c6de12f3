"""The KV of one row, taken out of the batch. Arrays are shared, never copied for a reader.

mlx-lm's batch copies a cache when it merges it in, and MLX copies an array that somebody else
still holds before it is written to. So a snapshot can be handed out as it is.
"""

from __future__ import annotations

import copy
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import (
    BatchKVCache,
    CacheList,
    KVCache,
    QuantizedKVCache,
    trim_prompt_cache,
)


class KvSnapshot:
    """One mlx-lm cache a layer, of exactly the tokens that it is stored for.

    Attributes:
        nbytes: bytes that its arrays hold.
        can_be_cut: whether every layer can forget its last tokens.
    """

    def __init__(self, caches: list[Any]) -> None:
        self._caches = caches
        self.nbytes = sum(int(cache.nbytes) for cache in caches)
        self.can_be_cut = all(map(_can_be_cut, caches))
        # The arrays are slices of the batch's until they are computed, and would keep all of it.
        # Asynchronously: nobody waits for them now.
        mx.async_eval([cache.state for cache in caches])  # type: ignore[no-untyped-call]

    def prefix(self, length: int, of: int) -> list[Any]:
        """Return caches that hold the first `length` of its `of` tokens, sharing its arrays."""
        caches = [fork(cache) for cache in self._caches]
        if length < of:
            trim_prompt_cache(caches, of - length)
        return caches


class SharedKv(KVCache):  # type: ignore[misc]
    """KV on a snapshot's arrays, which a batch of one row takes as they are.

    mlx-lm's own merge copies them, and copies the copy when the first new token makes it grow.
    """

    @classmethod
    def merge(cls, caches: list[Any]) -> BatchKVCache:
        """Return the batch of some rows."""
        if len(caches) > 1 or caches[0].keys is None:
            return BatchKVCache.merge(caches)
        (cache,) = caches
        batch = BatchKVCache([0])
        # Of exactly its length: it grows before it is written to, so the snapshot stays as it is.
        batch.keys = cache.keys[..., : cache.offset, :]
        batch.values = cache.values[..., : cache.offset, :]
        batch.offset = batch.offset + cache.offset
        batch._idx = cache.offset
        return batch


def fork(cache: Any) -> Any:
    """Return a cache of its own length on the same arrays.

    A batch merges it in by copying. Whatever writes to a cache in place needs `copy.deepcopy`.
    """
    if isinstance(cache, CacheList):
        return CacheList(*map(fork, cache.caches))
    if type(cache) is not KVCache:
        return copy.copy(cache)
    shared = SharedKv()
    shared.keys, shared.values, shared.offset = cache.keys, cache.values, cache.offset
    return shared


def compact(caches: list[Any]) -> list[Any]:
    """Return plain caches of exactly their tokens, without the room that they keep for more."""
    return [_compact(cache) for cache in caches]


def _compact(cache: Any) -> Any:
    if isinstance(cache, CacheList):
        return CacheList(*map(_compact, cache.caches))
    if type(cache) not in (KVCache, SharedKv) or cache.keys is None:
        return cache
    exact = KVCache()
    exact.keys = mx.contiguous(cache.keys[..., : cache.offset, :])
    exact.values = mx.contiguous(cache.values[..., : cache.offset, :])
    exact.offset = cache.offset
    return exact


def _can_be_cut(cache: Any) -> bool:
    """Return whether a cache can forget its last tokens.

    A chunked cache that has dropped its first ones lacks what an earlier token looks at.
    """
    return bool(cache.is_trimmable()) and not getattr(cache, "start_position", 0)


def always_cuttable(caches: list[Any]) -> bool:
    """Return whether these caches can forget tokens at any length.

    Rotating caches cannot once they are full, recurrent ones never can.
    """
    return all(isinstance(cache, KVCache | QuantizedKVCache) for cache in caches)
