"""One row under a grammar.

Letters: B rows, V vocabulary, W = ceil(V / 32) words.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from core.engine.grammar.build import new_mask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

# A form whose tokens take longer than this is let go: other rows wait meanwhile.
_MOST_AT_ONCE = 1.0
_MOST_IN_ALL = 10.0


class GrammarConstraint:
    """A `Constraint` that follows a compiled grammar.

    A grammar that cannot be followed any more (a token that it refuses, a dead end, a step that
    takes too long) lets the row go on without it: `lost` tells why.

    Attributes:
        lost: why the grammar does not constrain the row any more; None: it does.
    """

    def __init__(
        self,
        matcher: Any,
        *,
        vocabulary: int,
        stops: NDArray[Any],
        on_lost: Callable[[str], None],
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Take a fresh matcher.

        Args:
            matcher: xgrammar's.
            vocabulary: V.
            stops: bits of the tokens that end an answer, int32 [W].
            on_lost: hears why the grammar was given up, once.
            clock: seconds that the thread has computed: how busy the machine is must not matter.
        """
        self.lost: str | None = None
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._go_on = ~stops
        self._on_lost = on_lost
        self._clock = clock
        self._seconds = 0.0
        self._mask = new_mask(vocabulary)
        self._is_fresh = False
        self._limits = False
        self._begun = False

    @property
    def complete(self) -> bool:
        """Whether the grammar is satisfied and nothing can follow.

        Never before the first token: where only the empty text matches, the end is chosen as one.
        """
        if self.lost is not None or not self._begun:
            return False
        if self._matcher.is_terminated():
            return True
        if not self._matcher.is_completed():
            return False
        self._look()
        return self._limits and not (self._mask[0] & self._go_on).any()

    def accept(self, token: int) -> None:
        """Hear of a generated token."""
        self._begun = True
        if self.lost is not None or self._matcher.is_terminated():
            return
        self._is_fresh = False
        start = self._clock()
        known = 0 <= token < self._vocabulary
        if not known or not self._matcher.accept_token(token):
            self._lose("a token that the grammar does not allow was generated")
        self._watch(start)

    def fill(self, mask: NDArray[Any], row: int) -> bool:
        """Write what may come next into a line of the mask, int32 [B, W]."""
        if self.lost is None and not self._matcher.is_terminated():
            self._look()
        if self.lost is not None or not self._limits:
            return False
        mask[row] = self._mask[0]
        return True

    def restart(self, tokens: Sequence[int]) -> None:
        """Go back to the beginning and accept these."""
        self.lost = None
        self._matcher.reset()
        self._is_fresh = self._limits = self._begun = False
        for token in tokens:
            self.accept(token)

    def _look(self) -> None:
        """Find what may come next, once per token."""
        if self._is_fresh:
            return
        self._is_fresh = True
        start = self._clock()
        self._limits = bool(self._matcher.fill_next_token_bitmask(self._mask, 0))
        # Without a token that ends an answer, nothing is left at the end of the text.
        ended = self._begun and self._matcher.is_completed()
        if self._limits and not ended and not self._mask.any():
            self._lose("no token of the model can continue the text that the grammar allows")
        self._watch(start)

    def _watch(self, start: float) -> None:
        spent = self._clock() - start
        self._seconds += spent
        if spent > _MOST_AT_ONCE or self._seconds > _MOST_IN_ALL:
            self._lose("following the grammar takes too long")

    def _lose(self, reason: str) -> None:
        if self.lost is None:
            self.lost = reason
            self._on_lost(reason)
