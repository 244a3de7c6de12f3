"""Ctrl-C during work that can stop in order: the first one asks it to stop, the second one ends it.

Before there is anything to keep, the first one ends it.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Takes SIGINT and SIGTERM over for a block. For the main thread; elsewhere it does nothing."""

    def __init__(self, stopping: str, note: Callable[[str], None]) -> None:
        """Set the sentence that is printed after the first one.

        Args:
            stopping: the sentence.
            note: prints it.
        """
        self._stopping = stopping
        self._note = note
        self._begun = False
        self._pressed = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._take) for each in _SIGNALS}
        return self

    def __exit__(self, *_error: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def begin(self) -> None:
        """From here on there may be something to keep."""
        self._begun = True

    def pressed(self) -> bool:
        """Return whether the work is to stop."""
        return self._pressed

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self._pressed or not self._begun:
            raise KeyboardInterrupt
        self._pressed = True
        # In a thread of its own: this one may be in the middle of telling something.
        threading.Thread(target=self._note, args=(self._stopping,), daemon=True).start()
