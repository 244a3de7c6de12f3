"""The caller's end of an answer: an iterator of events that can be cancelled, from any thread.

The engine thread puts, the caller takes, plainly or from an event loop. Imports no arrays.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from core.engine.events import Event, Finished

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from core.errors import MlxbunError


class Generation:
    """One answer under way.

    Iterate it once, with `for` or `async for`; it ends after `Finished`, or after `cancel()`.
    Iterating raises the `EngineFailed` that ended the answer, after the events before it.

    Attributes:
        prompt_tokens: length of the prompt.
        cancelled: set by `cancel`; the engine frees the row within a step.
        warnings: what was asked for and is not done, one sentence each.
    """

    def __init__(
        self,
        *,
        prompt_tokens: int,
        on_cancel: Callable[[Generation], None] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.warnings = warnings
        self.cancelled = False
        self._on_cancel = on_cancel
        self._items: deque[Event | MlxbunError | None] = deque()
        self._ready = threading.Condition()
        self._waker: Callable[[], object] | None = None

    def put(self, event: Event) -> None:
        """Hand over an event. Called by the engine."""
        self._push(event)

    def fail(self, error: MlxbunError) -> None:
        """End the answer with an error. Called by the engine."""
        self._push(error)

    def cancel(self) -> None:
        """Stop the answer; iterating ends at once. Safe to call twice and after the end."""
        if self.cancelled:
            return
        self.cancelled = True
        self._push(None)
        if self._on_cancel:
            self._on_cancel(self)

    def __iter__(self) -> Iterator[Event]:
        """Yield events, blocking the thread between them."""
        while True:
            with self._ready:
                self._ready.wait_for(lambda: self._items or self.cancelled)
            event = self._take()
            if event is None:
                return
            yield event
            if isinstance(event, Finished):
                return

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield events, leaving the event loop free between them."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        with self._ready:
            self._waker = partial(loop.call_soon_threadsafe, arrived.set)
        while True:
            while not self._items and not self.cancelled:
                await arrived.wait()
                arrived.clear()
            event = self._take()
            if event is None:
                return
            yield event
            if isinstance(event, Finished):
                return

    def _push(self, item: Event | MlxbunError | None) -> None:
        with self._ready:
            self._items.append(item)
            self._ready.notify_all()
            if self._waker:
                try:
                    self._waker()
                except RuntimeError:  # the reader's event loop is closed: nobody listens
                    self._waker = None

    def _take(self) -> Event | None:
        if self.cancelled:
            return None
        item = self._items.popleft()
        if isinstance(item, Exception):
            raise item
        return item
