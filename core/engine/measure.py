"""What a loaded model keeps of a row, read off its own caches after one token.

Exact for every family that mlx-lm has, without a table of architectures.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import CacheList, KVCache, RotatingKVCache, make_prompt_cache

from core.fit.kv import KvShape, LayerKv


def measure_kv(model: Any) -> KvShape:
    """Lead one token through the model and return what each layer keeps of it.

    Nothing is computed: arrays know their shapes before they are evaluated.
    """
    caches = make_prompt_cache(model)
    model(mx.array([[0]]), cache=caches)
    return KvShape(layers=tuple(layer for cache in caches for layer in _layers(cache)))


def _layers(cache: Any) -> list[LayerKv]:
    if isinstance(cache, CacheList):
        return [layer for inner in cache.caches for layer in _layers(inner)]
    if isinstance(cache, KVCache | RotatingKVCache) and cache.keys is not None:
        allocated = cache.keys.shape[2]  # [B, H, T, D]
        window = cache.max_size if isinstance(cache, RotatingKVCache) else None
        return [LayerKv(bytes_per_token=cache.nbytes // allocated, window=window)]
    return [LayerKv(constant_bytes=int(cache.nbytes))]
