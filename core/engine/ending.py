"""When tokens may end an answer, as a constraint on its next token. Imports no MLX.

Letters: B rows, V vocabulary, W = ceil(V / 32) words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from core.engine.constraint import Constraint
    from core.engine.request import Ending


class EndingConstraint:
    """A `Constraint` that forbids EOS and stop tokens for a while and ends the row at a stop token.

    A complete form still ends the answer: where another constraint allows nothing
    but an end, that end is allowed.
    """

    def __init__(
        self, inner: Constraint | None, ending: Ending, *, eos_ids: frozenset[int]
    ) -> None:
        """Take the rules for the end and the other constraint.

        Args:
            inner: the row's other constraint; None: anything may come.
            ending: what the request asks for.
            eos_ids: tokens that end an answer anyway.
        """
        self._inner = inner
        self._ending = ending
        self._eos_ids = eos_ids
        self._count = 0
        self._stopped = False
        self._bits: dict[tuple[int, bool], NDArray[Any]] = {}  # by width and whether it is early

    @property
    def complete(self) -> bool:
        """Whether a stop token has come or the other constraint is complete."""
        return self._stopped or (self._inner is not None and self._inner.complete)

    def accept(self, token: int) -> None:
        """Note a generated token."""
        self._stopped = token in self._ending.stop_tokens and not self._is_early
        self._count += 1
        if self._inner is not None:
            self._inner.accept(token)

    def fill(self, mask: NDArray[Any], row: int) -> bool:
        """Write what may come next into a line of the mask, int32 [B, W]."""
        limited = self._inner is not None and self._inner.fill(mask, row)
        left = mask[row] & self._allowed(mask.shape[1])
        if (left == mask[row]).all() or not left.any():
            return limited
        mask[row] = left
        return True

    def restart(self, tokens: Sequence[int]) -> None:
        """Go back to the beginning and accept these."""
        self._count, self._stopped = len(tokens), False
        if self._inner is not None:
            self._inner.restart(tokens)

    @property
    def _is_early(self) -> bool:
        """Whether the next token is one of the first, which cannot end the answer."""
        return self._count < self._ending.min_tokens

    def _allowed(self, words: int) -> NDArray[Any]:
        """Return the bits of all tokens that do not end the answer too early, int32 [W]."""
        key = (words, self._is_early)
        if key not in self._bits:
            self._bits[key] = _all_but(self._forbidden(), words)
        return self._bits[key]

    def _forbidden(self) -> Iterable[int]:
        ending = self._ending
        if self._is_early:
            return self._eos_ids | ending.stop_tokens
        return self._eos_ids if ending.ignore_eos else ()


def with_ending(
    inner: Constraint | None, ending: Ending, *, eos_ids: frozenset[int]
) -> Constraint | None:
    """Return a row's constraint with what its request says of the end, if it says anything."""
    if not (ending.min_tokens or ending.ignore_eos or ending.stop_tokens):
        return inner
    return EndingConstraint(inner, ending, eos_ids=eos_ids)


def _all_but(tokens: Iterable[int], words: int) -> NDArray[Any]:
    line = np.full(words, -1, np.int32)
    bits = line.view(np.uint32)
    for token in tokens:
        if 0 <= token < 32 * words:
            bits[token // 32] &= ~np.uint32(1 << token % 32)
    return line
