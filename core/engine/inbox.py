"""Where other threads leave work for the engine's, under one lock. Imports no arrays."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal

from core.errors import EngineStopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.engine.scheduler import Row, Scheduler

Call = tuple["Callable[[], Any]", "Future[Any]"]


class Inbox:
    """Rows that wait, calls to run between steps, and whether the engine is to end.

    Attributes:
        scheduler: the queue; other threads only read its length.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self._calls: list[Call] = []
        self._closed: EngineStopped | None = None
        self._changed = threading.Condition()

    # Any thread.

    def put(self, *rows: Row, running: int) -> None:
        """Leave rows: all of them, or none.

        Args:
            rows: the rows.
            running: rows that run.

        Raises:
            QueueFull: too many wait.
            EngineStopped: the engine takes no more.
        """
        with self._changed:
            self._refuse_when_closed()
            self.scheduler.enqueue(*rows, running=running)
            self._changed.notify_all()

    def call(self, work: Callable[[], Any]) -> Future[Any]:
        """Leave a call and return its future.

        Raises:
            EngineStopped: the engine takes no more.
        """
        future: Future[Any] = Future()
        with self._changed:
            self._refuse_when_closed()
            self._calls.append((work, future))
            self._changed.notify_all()
        return future

    def wake(self) -> None:
        """Make the engine look: a row was cancelled."""
        with self._changed:
            self._changed.notify_all()

    def close(self, reason: EngineStopped) -> tuple[list[Row], list[Call]]:
        """Take no more, and return what was left; the first reason stands."""
        with self._changed:
            self._closed = self._closed or reason
            self._changed.notify_all()
            calls, self._calls = self._calls, []
            return self.scheduler.drop_all(), calls

    @property
    def closed(self) -> bool:
        """Whether the engine takes no more."""
        return self._closed is not None

    # The engine's thread.

    def limit_rows(self, cap: int) -> None:
        """Let at most so many rows run together."""
        with self._changed:
            self.scheduler.cap = cap

    def wait(self, timeout: float | None) -> Literal["work", "idle", "closed"]:
        """Sleep until there is something to do, or for `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self.scheduler.waiting or self._calls, timeout
            )
            if self._closed:
                return "closed"
            return "work" if self.scheduler.waiting or self._calls else "idle"

    def take_calls(self) -> list[Call]:
        """Return the calls left so far."""
        with self._changed:
            calls, self._calls = self._calls, []
            return calls

    def take_cancelled(self) -> list[Row]:
        """Return the waiting rows whose callers have left."""
        with self._changed:
            return self.scheduler.drop_cancelled()

    def take_waiting(self) -> list[Row]:
        """Return every row that waits."""
        with self._changed:
            return self.scheduler.drop_all()

    def next_row(self, running: int, may_start: Callable[[Row], bool]) -> Row | None:
        """Return the row that starts now, or None."""
        with self._changed:
            return self.scheduler.admit(running, may_start)

    def _refuse_when_closed(self) -> None:
        if self._closed is not None:
            raise self._closed
