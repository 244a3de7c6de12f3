"""Constraints for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray


class AllowOnly:
    """Allows some tokens, and is complete after so many.

    Attributes:
        heard: what it has accepted.
        restarts: how often it went back to the beginning.
    """

    def __init__(self, tokens: set[int] | None, *, length: int | None = None) -> None:
        self.heard: list[int] = []
        self.restarts = 0
        self._tokens = tokens
        self._length = length

    @property
    def complete(self) -> bool:
        return self._length is not None and len(self.heard) >= self._length

    def accept(self, token: int) -> None:
        self.heard.append(token)

    def fill(self, mask: NDArray[Any], row: int) -> bool:
        assert (mask[row] == -1).all()
        assert not self.complete
        if self._tokens is None:
            return False
        mask[row] = 0
        for token in self._tokens:
            mask[row].view("uint32")[token // 32] |= 1 << token % 32
        return True

    def restart(self, tokens: Sequence[int]) -> None:
        self.restarts += 1
        self.heard = list(tokens)
