"""What the constraints of a batch's rows allow, laid over its logits.

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

_INFINITY = 0x7F800000  # as float32 (IEEE 754); with the sign, -inf


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

    By a minimum with +inf or -inf, not by a selection: on a CPU that takes five times as long
    (1.6 ms for 8 rows of 49,152 tokens, against 0.3).

    Args:
        logits: any numbers.
        mask: bit t % 32 of word t // 32 allows token t; tokens beyond its words are forbidden.
    """
    vocabulary = logits.shape[-1]
    missing = -(-vocabulary // 32) - mask.shape[-1]
    if missing > 0:
        mask = np.pad(mask, ((0, 0), (0, missing)))
    forbidden = mx.array((~mask).view(np.uint32))
    # Each bit becomes the sign of an infinity.
    signs = (forbidden[..., None] >> mx.arange(32, dtype=mx.uint32)) << 31  # [B, W, 32]
    ceilings = signs | mx.array(_INFINITY, dtype=mx.uint32)
    flat = ceilings.reshape(mask.shape[0], -1)[:, :vocabulary].view(mx.float32)
    return mx.minimum(logits, flat.astype(logits.dtype))
