"""A form after a reasoning channel, and a limit of reasoning. Imports no MLX.

While a model thinks aloud, anything may come; the form begins when the channel is closed. A budget
closes it by force: the closing mark is then the only thing that may come, token by token.

Letters: B rows, V vocabulary, W = ceil(V / 32) words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from core.engine.constraint import Constraint

# Enough tokens to hold a closing mark that is spelled out byte by byte, and what comes before it.
_TAIL = 48
_MOST_BLANKS = 4


@dataclass(frozen=True, kw_only=True)
class ChannelTokens:
    """A reasoning channel as one model's tokens."""

    opening: tuple[int, ...]
    """The opening mark; empty: an answer never opens the channel itself."""
    closing: tuple[int, ...]
    """The closing mark; not empty."""
    closing_text: str
    """The closing mark as text: its characters may come as other tokens as well."""
    blanks: tuple[int, ...] = ()
    """Tokens that are white space and nothing else: they may stand between mark and form."""
    stops: tuple[int, ...] = ()
    """Tokens that end an answer: with a form to come, reasoning does not end with them."""


class AfterReasoning:
    """A `Constraint` that leaves reasoning alone, limits it, and then applies another one."""

    _inside: bool
    _opened: int
    _spent: int
    _tail: list[int]
    _blanks: int
    _waits: bool

    def __init__(
        self,
        inner: Constraint | None,
        *,
        channel: ChannelTokens,
        is_open: bool,
        budget: int | None,
        decode: Callable[[Sequence[int]], str],
        vocabulary: int,
    ) -> None:
        """Take what applies and when.

        Args:
            inner: applies after the channel; None: anything may come.
            channel: the marks.
            is_open: the prompt ends inside the channel.
            budget: most tokens of reasoning, the closing mark not counted; None: no limit.
            decode: returns the text of tokens; special ones need not be in it.
            vocabulary: V.
        """
        self._inner = inner
        self._channel = channel
        self._starts_open = is_open
        self._budget = budget
        self._decode = decode
        self._words = -(-vocabulary // 32)
        # A mark of several tokens is looked for as text too: a model may cut it in other ways.
        self._looks_at_text = len(channel.closing) > 1
        self._begin()

    @property
    def complete(self) -> bool:
        """Whether the form is complete; never while the channel is open."""
        return self._inner is not None and not self._inside and self._inner.complete

    def accept(self, token: int) -> None:
        """Hear of a generated token."""
        if self._inside:
            self._accept_reasoning(token)
        elif self._may_open(token):
            self._opened += 1
            self._inside = self._opened == len(self._channel.opening)
        elif self._may_be_blank and token in self._channel.blanks:
            self._blanks += 1
        else:
            self._waits = False
            if self._inner is not None:
                self._inner.accept(token)

    def fill(self, mask: NDArray[Any], row: int) -> bool:
        """Write what may come next into a line of the mask, int32 [B, W]."""
        if self._inside:
            return self._fill_reasoning(mask[row])
        if 0 < self._opened < len(self._channel.opening) and self._inner is not None:
            return _only(mask[row], self._channel.opening[self._opened])
        if self._inner is None or not self._inner.fill(mask, row):
            return False
        if self._waits:
            line = mask[row].view(np.uint32)
            if self._may_be_blank:
                _allow(line, self._channel.blanks)
            if self._opened == 0 and not self._blanks:
                _allow(line, self._channel.opening[:1])
        return True

    def restart(self, tokens: Sequence[int]) -> None:
        """Go back to the beginning and accept these."""
        self._begin()
        if self._inner is not None:
            self._inner.restart(())
        for token in tokens:
            self.accept(token)

    def _begin(self) -> None:
        self._inside = self._starts_open
        # How much of the opening mark has come; an open channel needs none.
        self._opened = len(self._channel.opening) if self._starts_open else 0
        self._spent = 0
        self._tail = []
        # Whether the closing mark has come, the white space after it, and whether the form has not
        # begun.
        self._closed = False
        self._blanks = 0
        self._waits = True

    @property
    def _may_be_blank(self) -> bool:
        """Whether white space may come: after the mark, where readers of the answer drop it."""
        return self._waits and self._closed and self._blanks < _MOST_BLANKS

    def _may_open(self, token: int) -> bool:
        """Return whether a token is the next one of the opening mark, at the start of an answer."""
        opening = self._channel.opening
        return self._waits and self._opened < len(opening) and token == opening[self._opened]

    def _accept_reasoning(self, token: int) -> None:
        self._spent += 1
        self._tail = [*self._tail[-_TAIL:], token]
        closing = self._channel.closing
        if tuple(self._tail[-len(closing) :]) == closing or (
            self._looks_at_text and self._channel.closing_text in self._decode(self._tail)
        ):
            self._inside = False
            self._closed = True
            self._opened = len(self._channel.opening)

    def _fill_reasoning(self, line: NDArray[Any]) -> bool:
        begun = self._begun()
        left = self._budget is None or self._spent - begun < self._budget
        # But for its last token the mark is there: nothing else may follow, or what comes next
        # would be read as reasoning by one and as the form by another.
        nearly = self._inner is not None and begun and begun == len(self._channel.closing) - 1
        if nearly or not left:
            return _only(line, self._channel.closing[begun])
        if self._inner is None or not self._channel.stops:
            return False
        _forbid(line.view(np.uint32), self._channel.stops)
        return True

    def _begun(self) -> int:
        """Return how many tokens of the closing mark the reasoning ends with."""
        closing = self._channel.closing
        sizes = range(min(len(closing) - 1, len(self._tail)), 0, -1)
        return next((n for n in sizes if tuple(self._tail[-n:]) == closing[:n]), 0)


def _only(line: NDArray[Any], token: int) -> bool:
    """Allow one token."""
    line[:] = 0
    _allow(line.view(np.uint32), (token,))
    return True


def _allow(line: NDArray[Any], tokens: Sequence[int]) -> None:
    for token in tokens:
        line[token // 32] |= np.uint32(1 << token % 32)


def _forbid(line: NDArray[Any], tokens: Sequence[int]) -> None:
    for token in tokens:
        line[token // 32] &= ~np.uint32(1 << token % 32)
