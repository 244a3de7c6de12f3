"""What MLX holds in memory. Reads counters only; safe from any thread."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx


@dataclass(frozen=True, kw_only=True)
class Memory:
    """MLX's memory at one moment, in bytes."""

    active: int
    """In live arrays."""
    peak: int
    """The most it was."""
    cache: int
    """Kept for reuse."""


def memory_now() -> Memory:
    """Return MLX's own counters."""
    return Memory(
        active=int(mx.get_active_memory()),
        peak=int(mx.get_peak_memory()),
        cache=int(mx.get_cache_memory()),
    )
