"""Timings of an answer on its way through the engine. Imports no arrays.

Measuring never waits for the device: the times are those of the host around what it does anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from core.engine.events import Span


@dataclass(kw_only=True)
class Trail:
    """Moments and durations of one row, in seconds of the engine's clock; 0: not there yet."""

    placement: Span | None = None
    """Deciding how it runs."""
    setup: Span | None = None
    """Putting it into the batch, the last time that this was done."""
    chunks: list[Span] = field(default_factory=list)
    """The steps that computed its prompt; each also computes a token of every running answer."""
    kept: list[Span] = field(default_factory=list)
    """Keeping the KV of its prompt for others."""
    prompt_done_at: float = 0.0
    """When the step began that computes its first token."""
