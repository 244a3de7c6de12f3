"""The KV of one row, taken out of the batch. Arrays are shared, never copied for a reader.

mlx-lm's batch copies a cache when it merges it in, and MLX copies an array that somebody else
still holds before it is written to. So a snapshot can be handed out as it is.
"""

from __future__ import annotations

import copy
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import (
    CacheList,
    KVCache,
    QuantizedKVCache,
    can_trim_prompt_cache,
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
        self.can_be_cut = bool(can_trim_prompt_cache(caches))
        # The arrays are slices of the batch's until they are computed, and would keep all of it.
        # Asynchronously: nobody waits for them now.
        mx.async_eval([cache.state for cache in caches])  # type: ignore[no-untyped-call]

    def prefix(self, length: int, of: int) -> list[Any]:
        """Return caches that hold the first `length` of its `of` tokens, sharing its arrays."""
        caches = [_fork(cache) for cache in self._caches]
        if length < of:
            trim_prompt_cache(caches, of - length)
        return caches


def _fork(cache: Any) -> Any:
    """Return a cache of its own length on the same arrays."""
    if isinstance(cache, CacheList):
        return CacheList(*map(_fork, cache.caches))
    return copy.copy(cache)


def always_cuttable(caches: list[Any]) -> bool:
    """Return whether these caches can forget tokens at any length.

    Rotating caches cannot once they are full, recurrent ones never can.
    """
    return all(isinstance(cache, KVCache | QuantizedKVCache) for cache in caches)
