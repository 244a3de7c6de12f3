"""What the constraints of a batch's rows allow, as something to add to its logits.

Letters: B rows, V vocabulary, W = ceil(V / 32) words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from core.engine.constraint import Constraint

_MINUS_INFINITY = 0xFF800000  # as float32 (IEEE 754)


class BatchMask:
    """Asks the constraints of a batch, and forbids what they do not allow."""

    def __init__(self, rows: Sequence[tuple[int, Constraint]]) -> None:
        """Take the constrained rows: a row's place in the batch, and its constraint."""
        self._rows = rows

    def __call__(self, logits: mx.array) -> mx.array:
        """Return the logits with -inf at what is forbidden; the others are untouched. [B, V]."""
        batch, vocabulary = logits.shape
        mask = np.full((batch, -(-vocabulary // 32)), -1, dtype=np.int32)
        # A row that is complete has nothing to choose: it leaves the batch.
        asked = [
            constraint.fill(mask, row) for row, constraint in self._rows if not constraint.complete
        ]
        return forbid(logits, mask) if any(asked) else logits


def forbid(logits: mx.array, mask: NDArray[np.int32]) -> mx.array:
    """Set logits to -inf where a mask has no bit. [B, V] → [B, V].

    Added, not selected: on a CPU a selection takes five times as long (1.6 ms for 8 rows of 49,152
    tokens, against 0.3).

    Args:
        logits: any floating-point numbers but +inf.
        mask: bit t % 32 of word t // 32 allows token t; tokens beyond its words are forbidden.
    """
    vocabulary = logits.shape[-1]
    missing = -(-vocabulary // 32) - mask.shape[-1]
    if missing > 0:
        mask = np.pad(mask, ((0, 0), (0, missing)))
    words = mx.array(mask.view(np.uint32))
    bits = (words[..., None] >> mx.arange(32, dtype=mx.uint32)) & 1  # [B, W, 32]
    # 1 becomes the bits of 0.0, 0 those of -inf.
    walls = (bits - 1) & mx.array(_MINUS_INFINITY, dtype=mx.uint32)
    flat = walls.reshape(mask.shape[0], -1)[:, :vocabulary].view(mx.float32)
    return logits + flat.astype(logits.dtype)
