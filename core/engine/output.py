"""The output pipeline of one row: token → text → stop texts → events.

Pure and incremental, one for streaming and not: a whole answer is the fold of its stream. Knows no
arrays and no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.engine.detokenizer import Detokenizer
from core.engine.events import TextDelta
from core.engine.stops import StopMatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class OutputPipeline:
    """Turns a row's tokens into the events that its caller sees."""

    def __init__(self, *, decode: Callable[[Sequence[int]], str], stops: Sequence[str]) -> None:
        self._detokenizer = Detokenizer(decode)
        self._stops = StopMatcher(stops)

    @property
    def stopped(self) -> bool:
        """Whether a stop text ended the answer."""
        return self._stops.stopped

    def push(self, token: int) -> Iterator[TextDelta]:
        """Take one token that is not EOS and yield what it brings."""
        yield from self._deltas(self._stops.push(self._detokenizer.push(token)))

    def flush(self) -> Iterator[TextDelta]:
        """Yield what was held back: the row is over."""
        yield from self._deltas(self._stops.push(self._detokenizer.flush()))
        if not self._stops.stopped:
            yield from self._deltas(self._stops.flush())

    @staticmethod
    def _deltas(text: str) -> Iterator[TextDelta]:
        if text:
            yield TextDelta(text=text)
