"""The body of `POST /admin/cache/flush`."""

from __future__ import annotations

from msgspec import Struct, field


class Flushed(Struct, kw_only=True, rename="camel"):
    """How much of the prompt cache is on disk. Without an SSD cache all counts are 0."""

    durable: bool = True
    flushed_snapshots: int = 0
    missing_snapshots: int = 0
    pending_snapshots: int = 0
    pending_spills: int = 0
    pending_spill_bytes: int = 0
    dropped_spills: int = 0
    failed_spills: int = 0
    elapsed_ms: int = 0
    entries: int = 0
    longest_durable_prefix_tokens: int = field(default=0, name="longest_durable_prefix_tokens")
