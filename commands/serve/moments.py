"""Moments that names are made of."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Moments:
    """Milliseconds since 1970, of which none is given out twice. Safe in any thread."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Take what tells Unix seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        """Return the moment, or the first one after it that was not given out."""
        with self._lock:
            self._last = max(int(self._clock() * 1000), self._last + 1)
            return self._last
