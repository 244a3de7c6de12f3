"""From the logits of a step to the tokens of all its rows, and what is to be known of them.

In this order: biases and penalties; here log-probabilities are read; then constraints, then tone
curve, filters and draw. Rows that ask for none of it pay for none of it.

Letters: B rows, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.engine.logprobs import Pending, read_rows
from core.engine.masking import BatchMask
from core.engine.sampler import DrawRows
from core.engine.shaping import BatchShaping

if TYPE_CHECKING:
    from collections.abc import Sequence

    import mlx.core as mx

    from core.engine.constraint import Constraint
    from core.engine.sampler import Sampler
    from core.engine.shaping import RowShaping


@dataclass(frozen=True, kw_only=True)
class RowChooser:
    """How one row chooses its tokens."""

    sampler: Sampler
    """Filters and draws."""
    shaping: RowShaping | None = None
    """Its biases and penalties; None: it has none."""
    constraint: Constraint | None = None
    """What it may generate; None: anything."""
    top: int | None = None
    """None: no log-probabilities; n: those of the chosen token and of the n likeliest."""

    @property
    def complete(self) -> bool:
        """Whether its constraint says that nothing can follow."""
        return self.constraint is not None and self.constraint.complete


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a step has chosen; nothing of it is computed yet."""

    tokens: mx.array
    """One a row. [B]"""
    pending: list[Pending | None]
    """Log-probabilities of the rows that want them."""

    @property
    def arrays(self) -> list[mx.array]:
        """What is to be computed."""
        read = [array for each in self.pending if each for array in each.readings.arrays]
        return [self.tokens, *read]


class BatchChooser:
    """How the rows of a batch choose their tokens. Made once for as long as they stay the same."""

    def __init__(self, rows: Sequence[RowChooser], vocabulary: int) -> None:
        """Take the rows.

        Args:
            rows: in the order of the batch.
            vocabulary: V.
        """
        shaped = [(place, row.shaping) for place, row in enumerate(rows) if row.shaping]
        bound = [(place, row.constraint) for place, row in enumerate(rows) if row.constraint]
        self._shaped = shaped
        self._shape = BatchShaping(shaped, vocabulary) if shaped else None
        self._mask = BatchMask(bound) if bound else None
        self._wanted = [(n, row.top) for n, row in enumerate(rows) if row.top is not None]
        self._unread: list[Pending | None] = [None] * len(rows)
        self._draw = DrawRows([row.sampler for row in rows])

    @property
    def constrained(self) -> bool:
        """Whether a row can only choose once its last token is known."""
        return self._mask is not None

    def hear(self, tokens: Sequence[int]) -> None:
        """Tell the penalties' windows what was computed, one token a row."""
        for place, shaping in self._shaped:
            shaping.hear(tokens[place])

    def choose(self, logits: mx.array, current: mx.array) -> Choice:
        """Choose a token for every row.

        Args:
            logits: [B, V].
            current: the tokens that they follow; `hear` has not been told of them. [B]
        """
        if self._shape:
            logits = self._shape(logits, current)
        allowed = self._mask(logits) if self._mask else logits
        tokens = self._draw(allowed)
        read = read_rows(logits, tokens, self._wanted) if self._wanted else self._unread
        return Choice(tokens=tokens, pending=list(read))
