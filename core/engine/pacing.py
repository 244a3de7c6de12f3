"""How much prefill a step may do while other rows decode. Arithmetic over measured times only.

A long prompt is computed in chunks, one a step, and every row that decodes waits for the chunk. So
a chunk may take a few times as long as the usual decode step, no longer; how many tokens that is,
is measured as it goes. When nobody decodes, nobody waits, and chunks are as large as is efficient.
"""

from __future__ import annotations

from typing import Literal

Preference = Literal["latency", "throughput"]

# Steps that a step with prefill in it may last, in usual decode steps. Larger chunks compute a
# prompt faster and let streams stutter more.
_PATIENCE: dict[str, float] = {"latency": 3.6, "throughput": 5.3}
# What a chunk costs however small it is, in decode steps: both read all weights (measured on a
# CPU: 45 ms, beside 67 ms for 4 rows that decode).
_CHUNK_START = 0.7
_SMOOTHING = 0.3
_LEAST = 8


class Pacing:
    """Learns how long steps take and sizes the next one's prefill."""

    def __init__(self, *, preference: Preference, most: int) -> None:
        """Take the limits.

        Args:
            preference: which of the two to favour.
            most: tokens that one step may prefill over all rows when nobody waits.
        """
        self._patience = _PATIENCE[preference]
        self._most = most
        self._decode_seconds: float | None = None
        self._prefill_rate: float | None = None  # tokens a second

    def tokens(self, *, decoding: int) -> int:
        """Return how many tokens the next step may prefill over all rows."""
        if not decoding:
            return self._most
        if self._decode_seconds is None or self._prefill_rate is None:
            return max(_LEAST, self._most // 8)
        allowed = (self._patience - 1 - _CHUNK_START) * self._decode_seconds * self._prefill_rate
        return max(_LEAST, min(self._most, int(allowed)))

    def observe(self, *, seconds: float, decoding: int, prefilled: int) -> None:
        """Learn from a step.

        Args:
            seconds: what it took.
            decoding: rows that decoded in it.
            prefilled: tokens that it prefilled.
        """
        if decoding and not prefilled:
            # A step after rows have joined copies their KV, and says little of the next ones.
            usual = min(seconds, 2 * (self._decode_seconds or seconds))
            self._decode_seconds = _blend(self._decode_seconds, usual)
        elif prefilled:
            steps = _CHUNK_START + 1 if decoding else _CHUNK_START
            rest = seconds - steps * (self._decode_seconds or 0.0)
            # A step cannot prefill in no time: what is left after the decode may be noise.
            self._prefill_rate = _blend(self._prefill_rate, prefilled / max(rest, seconds / 4))


def _blend(old: float | None, new: float) -> float:
    return new if old is None else (1 - _SMOOTHING) * old + _SMOOTHING * new
