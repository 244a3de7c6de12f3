"""Server-sent events over ASGI: headers at once, comments while nothing comes, and who hung up.

Knows bytes and the clock, nothing of a protocol or of an engine.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from litestar.types import Receive, Scope, Send

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # nginx would collect the events otherwise
]


def data_event(data: bytes) -> bytes:
    """Return the event that carries one line of data."""
    return b"data: " + data + b"\n\n"


async def until_disconnect(receive: Receive) -> None:
    """Return when the client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream:
    """An ASGI application that sends a stream of events, once.

    `on_close` runs whatever happens: after the last event, when the client hangs up, when the
    server stops, even when nothing was sent at all.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        on_close: Callable[[], None],
        keep_alive: float = 10.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Take the events to send.

        Args:
            events: whole events; must not raise.
            on_close: called at the end, exactly once.
            keep_alive: seconds of silence after which a comment is sent.
            headers: further ones, in latin-1.
        """
        self._events = events
        self._on_close = on_close
        self._keep_alive = keep_alive
        more = {} if headers is None else headers
        self._headers = [
            *_HEADERS,
            *((name.encode("latin-1"), value.encode("latin-1")) for name, value in more.items()),
        ]
        # When something was sent last; None: it is being sent now, or nothing may be sent any more.
        self._spoke: float | None = None

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends or the client hangs up."""
        sender = asyncio.ensure_future(self._send(send))
        watcher = asyncio.ensure_future(until_disconnect(receive))
        comments = asyncio.ensure_future(self._break_silence(send))
        try:
            await asyncio.wait((sender, watcher), return_when=asyncio.FIRST_COMPLETED)
            if sender.done():
                sender.result()
        finally:
            self._on_close()
            for task in (sender, watcher, comments):
                task.cancel()
            await asyncio.gather(sender, watcher, comments, return_exceptions=True)
            await self._events.aclose()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        self._spoke = monotonic()
        async for event in self._events:
            self._spoke = None
            await send(_body(event, more=True))
            self._spoke = monotonic()
        self._spoke = None
        await send(_body(b"", more=False))

    async def _break_silence(self, send: Send) -> None:
        """Send comments while no event comes: one task a stream, not a timer an event."""
        while True:
            # While something is being sent there is no silence, however long the reader takes.
            silent = monotonic() - self._spoke if self._spoke is not None else 0.0
            if silent < self._keep_alive:
                await asyncio.sleep(self._keep_alive - silent)
                continue
            self._spoke = None
            await send(_body(KEEP_ALIVE, more=True))
            self._spoke = monotonic()


def _body(data: bytes, *, more: bool) -> Any:
    return {"type": "http.response.body", "body": data, "more_body": more}
