"""What `POST /admin/cache/flush` answers."""

from __future__ import annotations

from msgspec import Struct, field


class Flushed(Struct, kw_only=True, rename="camel"):
    """What of the prompt cache is on disk: without an SSD cache there is nothing to write."""

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
