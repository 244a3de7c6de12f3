"""A thread that does one thing, can be asked to end, and hands back what it brought."""

from __future__ import annotations

from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Work(Generic[T]):
    """Something that runs in a thread of its own; the thread does not keep the process alive."""

    def __init__(self, run: Callable[[Flag], T], *, cancel: Flag) -> None:
        """Start it.

        Args:
            run: does the work, and ends soon after its event is set.
            cancel: that event.
        """
        self._cancel = cancel
        self._done = Flag()
        self._result: T | None = None
        self._error: BaseException | None = None
        Thread(target=self._main, args=(run,), name="download", daemon=True).start()

    def cancel(self) -> None:
        """Ask it to end; what has been fetched stays."""
        self._cancel.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end, in seconds, and return whether it has come."""
        return self._done.wait(timeout)

    def result(self) -> T:
        """Wait for its end and return what it brought, or raise what it raised."""
        while not self._done.wait(0.2):  # with a bound, so that Ctrl-C gets through
            continue
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def _main(self, run: Callable[[Flag], T]) -> None:
        try:
            self._result = run(self._cancel)
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()


def wait_for(work: Work[T]) -> T:
    """Return what a work brings; Ctrl-C ends it, and comes through within moments."""
    try:
        return work.result()
    except KeyboardInterrupt:
        work.cancel()
        work.wait(5.0)
        raise
