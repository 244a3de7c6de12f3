"""What Ctrl-C does, moment by moment: a chat must not end because a key came a moment late."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType


def end_program() -> None:
    """Do what Python does by itself."""
    raise KeyboardInterrupt


class Interrupts:
    """Takes SIGINT over for a block; then a Ctrl-C that is meant for nothing does nothing.

    A line editor that reads keys itself has the terminal to itself meanwhile.
    """

    def __init__(self) -> None:
        self._action: Callable[[], object] | None = None

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._pressed)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def calling(self, action: Callable[[], object]) -> Iterator[None]:
        """Call `action` for every Ctrl-C in the block, in the middle of whatever is done there."""
        before, self._action = self._action, action
        try:
            yield
        finally:
            self._action = before

    def _pressed(self, _number: int, _frame: FrameType | None) -> None:
        if self._action:
            self._action()
