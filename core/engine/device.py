"""MLX's device: its name, its memory, and leaving a thread that used it."""

from __future__ import annotations

import gc
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


def device_name() -> str:
    """Return `metal`, `cuda` or `cpu`: where MLX computes by default."""
    if mx.default_device().type == mx.DeviceType.cpu:
        return "cpu"
    return "metal" if mx.metal.is_available() else "cuda"


def recommended_working_set() -> int | None:
    """Return the bytes that the device recommends to use at most, or None if it does not say."""
    size = mx.device_info(mx.default_device()).get("max_recommended_working_set_size")
    return int(size) if size else None


def forget_arrays() -> None:
    """Give memory back after a model was let go: collect cycles, then MLX's own cache."""
    gc.collect()
    mx.clear_cache()


def leave_thread() -> None:
    """End this thread's streams. The last thing that a thread does with MLX.

    A stream that outlives its thread aborts the process when it exits ("terminate called without
    an active exception", mlx 0.32).
    """
    mx.synchronize()
    mx.clear_streams()


def memory_now() -> Memory:
    """Return MLX's own counters. Safe from any thread."""
    return Memory(
        active=int(mx.get_active_memory()),
        peak=int(mx.get_peak_memory()),
        cache=int(mx.get_cache_memory()),
    )


def is_out_of_memory(error: Exception) -> bool:
    """Return whether MLX raised this because there was no memory left."""
    if isinstance(error, MemoryError):
        return True
    words = ("malloc", "allocate", "out of memory", "insufficient memory", "bad_alloc")
    return isinstance(error, RuntimeError) and any(w in str(error).lower() for w in words)
