"""Notices an engine whose thread has died, or that has work and makes no progress."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Stall:
    """Tells for how long something that is busy has shown no sign of life."""

    def __init__(self) -> None:
        self._beat: object = None
        self._since = 0.0

    def seconds(self, *, busy: bool, beat: object, now: float) -> float:
        """Return the seconds since `beat` was first seen as it is, while `busy`.

        Args:
            busy: whether there is work.
            beat: anything that changes with every sign of life.
            now: a monotonic clock, in seconds.
        """
        if not busy or beat != self._beat:
            self._beat, self._since = beat, now
        return now - self._since


class Watchdog:
    """Asks again and again until there is something to tell, tells it once, and ends."""

    def __init__(
        self,
        find_trouble: Callable[[], str | None],
        tell: Callable[[str], None],
        *,
        interval: float = 1.0,
    ) -> None:
        """Start watching.

        Args:
            find_trouble: returns what is wrong, in a sentence, or None.
            tell: called with that sentence, on the watchdog's thread.
            interval: seconds between two looks.
        """
        self._find_trouble = find_trouble
        self._tell = tell
        self._interval = interval
        self._ended = threading.Event()
        threading.Thread(target=self._watch, name="mlxbun-watchdog", daemon=True).start()

    def stop(self) -> None:
        """Watch no more."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._interval):
            trouble = self._find_trouble()
            if trouble is not None:
                self._tell(trouble)
                return
