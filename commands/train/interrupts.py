"""Ctrl-C while a training runs: the first one asks it to save and end, the second one ends it."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Takes SIGINT and SIGTERM over for a block. For the main thread; elsewhere it does nothing."""

    def __init__(self) -> None:
        self._pressed = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {each: signal.signal(each, self._take) for each in _SIGNALS}
        return self

    def __exit__(self, *_error: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def pressed(self) -> bool:
        """Return whether somebody asked it to end."""
        return self._pressed

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self._pressed:
            raise KeyboardInterrupt
        self._pressed = True
