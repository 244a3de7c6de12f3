"""Ctrl-C while a training runs: the first one asks it to save and end, the second one ends it.

Before the first step there is nothing to save, so the first one ends it.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_HEARD = "Ending after the running step, and saving; Ctrl-C again ends at once."


class Interrupts:
    """Takes SIGINT and SIGTERM over for a block. For the main thread; elsewhere it does nothing."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """Take what tells a person that the first one was heard."""
        self._note = note
        self._training = False
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
        """From here on there may be something to save."""
        self._training = True

    def pressed(self) -> bool:
        """Return whether somebody asked it to end."""
        return self._pressed

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self._pressed or not self._training:
            raise KeyboardInterrupt
        self._pressed = True
        # In a thread of its own: this one may be in the middle of telling something.
        threading.Thread(target=self._note, args=(_HEARD,), daemon=True).start()
