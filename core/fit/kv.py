"""Bytes of KV by layer kind, for one row and for a batch.

Kinds: *full* attention keeps every token, *sliding* attention the last `window` ones, *state*
layers (SSM, linear attention, convolution) a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# mlx-lm grows its caches by this many tokens at a time.
GROWTH_TOKENS = 256


@dataclass(frozen=True, kw_only=True)
class LayerKv:
    """What one layer keeps of a row."""

    bytes_per_token: int = 0
    """Bytes that each token adds."""
    window: int | None = None
    """Most tokens that it keeps; None: all."""
    constant_bytes: int = 0
    """Bytes that it keeps whatever the length."""

    def bytes(self, tokens: int) -> int:
        """Return the bytes for a row of `tokens` tokens."""
        kept = tokens if self.window is None else min(tokens, self.window)
        return self.constant_bytes + kept * self.bytes_per_token


@dataclass(frozen=True, kw_only=True)
class KvShape:
    """What all layers keep of a row."""

    layers: tuple[LayerKv, ...]
    """One entry a layer."""

    def row_bytes(self, tokens: int) -> int:
        """Return the bytes for a row of `tokens` tokens, rounded up as caches grow."""
        grown = -(-tokens // GROWTH_TOKENS) * GROWTH_TOKENS
        return sum(layer.bytes(grown) for layer in self.layers)

    def batch_bytes(self, lengths: Sequence[int]) -> int:
        """Return the bytes for rows that run together.

        A batch keeps its rows as long as its longest one: shorter ones are padded.
        """
        return len(lengths) * self.row_bytes(max(lengths, default=0))

    def longest(self, budget_bytes: int, limit: int) -> int:
        """Return the most tokens, up to `limit`, of a row alone within a budget; 0: none fits."""
        if self.row_bytes(limit) <= budget_bytes:
            return limit
        low, high = 0, limit
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.row_bytes(middle) <= budget_bytes else (low, middle)
        return low
