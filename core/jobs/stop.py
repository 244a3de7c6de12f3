"""The wish that a job ends: by SIGTERM, by SIGINT, or by a note in its row."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    _Handler = Callable[[int, FrameType | None], None] | signal.Handlers


class Cancelled(KeyboardInterrupt):
    """The job is to end. As with Ctrl-C, the work keeps what it has and lets this pass."""


class Stop:
    """Whether a job is to end, and whether its work has been told.

    Plain flags: a signal's handler may come while its own thread holds any lock.

    Attributes:
        asked: it is to end.
        heard: its work knows.
        raised: it was told by `Cancelled`.
    """

    def __init__(self) -> None:
        self.asked = False
        self.heard = False
        self.raised = False
        self._interrupting = False

    def ask(self) -> None:
        """Wish that it ends."""
        self.asked = True

    def check(self) -> None:
        """Do nothing, unless the work is to be told.

        Raises:
            Cancelled: it is to end; once.
        """
        if self.asked and not self.raised:
            self.heard = self.raised = True
            raise Cancelled

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Hear signals while the block runs; a hang-up of whoever started us is none."""
        handlers: dict[signal.Signals, _Handler] = {
            signal.SIGTERM: self._hear,
            signal.SIGINT: self._hear,
            signal.SIGHUP: signal.SIG_IGN,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Let the second signal interrupt the block wherever it is."""
        self._interrupting = True
        try:
            yield
        finally:
            self._interrupting = False

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked and self._interrupting:
            self.heard = self.raised = True
            raise Cancelled
        self.asked = True
