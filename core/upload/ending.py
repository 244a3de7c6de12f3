"""When an upload ends before its time, and why. Shared by all of its threads."""

from __future__ import annotations

import threading
from typing import TypeVar

E = TypeVar("E", bound=Exception)


class Cancelled(Exception):
    """The work was ended. Never leaves this package."""


class Ending:
    """One end for all threads: from outside by a flag, or by the first failure among them.

    Attributes:
        reason: the first failure; None: there was none.
    """

    def __init__(self, flag: threading.Event) -> None:
        """Begin.

        Args:
            flag: ends everything when it is set, from outside or by a failure.
        """
        self._flag = flag
        self._lock = threading.Lock()
        self.reason: Exception | None = None

    def check(self) -> None:
        """Let nobody pass who should not go on.

        Raises:
            Cancelled: it has come.
        """
        if self._flag.is_set():
            raise Cancelled

    def wait(self, seconds: float) -> None:
        """Wait, no longer than until the end.

        Raises:
            Cancelled: it came meanwhile.
        """
        if self._flag.wait(seconds):
            raise Cancelled

    def fail(self, error: E) -> E:
        """End everything because of an error, which is returned to be raised."""
        with self._lock:
            if self.reason is None and not self._flag.is_set():
                self.reason = error
            self._flag.set()
        return error
