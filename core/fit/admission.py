"""Which row may start within the memory that there is. Policy over bytes; imports no arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.fit.kv import KvShape

# A batch is copied when rows join, leave or grow: for a moment it is there twice.
_COPIES = 2
# Tokens of an answer that a row is sure of when it starts; what it takes beyond is found as it
# goes, from kept prompts first.
_SURE_TOKENS = 512


@dataclass(frozen=True, kw_only=True)
class Admission:
    """The memory that rows share."""

    kv: KvShape
    """What the model keeps of a row."""
    room_bytes: int
    """What the budget leaves beside the weights and a step's transients; at least 0."""
    context_window: int
    """Tokens that the model was made for."""
    kv_budget_bytes: int | None = None
    """Most bytes of KV that running rows may take together; None: what the room allows."""

    @property
    def max_context(self) -> int:
        """Tokens of prompt and answer that a row alone can have here."""
        longest = self.kv.longest(self.room_bytes // _COPIES, self.context_window)
        return min(longest, self._within_budget)

    @property
    def short_of_kv_budget(self) -> bool:
        """Whether the KV budget is what limits a row alone."""
        return self.max_context < self.kv.longest(self.room_bytes // _COPIES, self.context_window)

    @property
    def _within_budget(self) -> int:
        if self.kv_budget_bytes is None:
            return self.context_window
        return self.kv.longest(self.kv_budget_bytes, self.context_window)

    def fits(self, row: tuple[int, int], running: Sequence[tuple[int, int]]) -> bool:
        """Return whether a row may start beside those that run.

        Args:
            row: (tokens it has: cached and new, most tokens it may still generate).
            running: the same of each row that runs.
        """
        if not running:
            return True  # its prompt was checked against `max_context` when it came
        rows = (row, *running)
        lengths = [self._length(*each) for each in rows]
        return rows_bytes(self.kv, lengths) <= self.room_bytes and self._keeps_budget(rows)

    def _keeps_budget(self, rows: Sequence[tuple[int, int]]) -> bool:
        """Return whether rows stay within the KV budget whatever they generate.

        It is a promise, unlike the room, where kept prompts give way to what rows grow by.
        """
        if self.kv_budget_bytes is None:
            return True
        return self.kv.batch_bytes([sum(each) for each in rows]) <= self.kv_budget_bytes

    def _length(self, tokens: int, to_come: int) -> int:
        return min(tokens + min(to_come, _SURE_TOKENS), self.context_window)


def rows_bytes(kv: KvShape, lengths: Sequence[int]) -> int:
    """Return what has to be there for rows of these lengths that run together."""
    return _COPIES * kv.batch_bytes(lengths)


def transient_bytes(*, prefill_tokens: int, rows: int, hidden: int, vocabulary: int) -> int:
    """Return what a step needs beside weights and KV, in bytes.

    The widest moments of a Llama-like layer in float32: about eight activations of a prefill chunk
    at four times the hidden size, and the logits of every row with one copy.
    """
    return 4 * (8 * prefill_tokens * 4 * hidden + 2 * rows * vocabulary)
