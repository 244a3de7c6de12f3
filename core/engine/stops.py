"""Stop texts, matched on decoded text and never leaked. Pure text: knows no tokens, no arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class StopMatcher:
    """Feeds text through and ends it at the first stop text that completes.

    The result does not depend on how the text is cut: the stop that *completes* first wins, and
    of those that complete at the same character the longest. Text that may be the beginning of a
    stop is held back until the next piece decides.

    Attributes:
        stopped: whether a stop text was seen; nothing comes out after it.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self.stopped = False

    def push(self, piece: str) -> str:
        """Take a piece of text and return what may be shown now."""
        if self.stopped:
            return ""
        if not self._stops:
            return piece
        text = self._held + piece
        match = self._first_match(text)
        if match is not None:
            self.stopped = True
            self._held = ""
            return text[:match]
        keep = self._possible_start(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """Return what was held back: the text is over and no stop completed."""
        held, self._held = self._held, ""
        return held

    def _first_match(self, text: str) -> int | None:
        """Return where the stop that completes first begins, or None."""
        ends = [
            (start + len(stop), start) for stop in self._stops if (start := text.find(stop)) != -1
        ]
        return min(ends)[1] if ends else None

    def _possible_start(self, text: str) -> int:
        """Return the length of the longest end of `text` that begins a stop."""
        for size in range(min(self._longest - 1, len(text)), 0, -1):
            tail = text[-size:]
            if any(stop.startswith(tail) for stop in self._stops):
                return size
        return 0
