"""What a row may generate next, decided on the host token by token. Imports no MLX.

A grammar, a budget of reasoning tokens and a call that must be made all look the same from the
step: before a token is drawn they allow some of the vocabulary, and they hear what was drawn.

Letters: B rows, V vocabulary, W = ceil(V / 32) words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Constraint(Protocol):
    """Watches one row. Used by the engine's thread only; never raises on any token."""

    @property
    def complete(self) -> bool:
        """Whether what was generated is complete and nothing can follow: the row ends (`stop`)."""
        ...

    def accept(self, token: int) -> None:
        """Hear of a generated token, EOS included."""
        ...

    def fill(self, mask: NDArray[Any], row: int) -> bool:
        """Write what may come next.

        Args:
            mask: bits of the tokens that may come, int32 [B, W], all set before; bit t % 32 of word
                t // 32 stands for token t.
            row: which line of it is this row's.

        Returns:
            Whether anything is forbidden; False: the line was left as it was.
        """
        ...

    def restart(self, tokens: Sequence[int]) -> None:
        """Go back to the beginning and accept these: the row starts again after a failed step."""
        ...
