"""Server-sent events over ASGI: headers at once, comments while nothing comes, and who hung up.

Knows bytes and the clock, nothing of a protocol or of an engine.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

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
    ) -> None:
        """Take the events to send.

        Args:
            events: whole events; must not raise.
            on_close: called at the end, exactly once.
            keep_alive: seconds of silence after which a comment is sent.
        """
        self._events = events
        self._on_close = on_close
        self._keep_alive = keep_alive

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends or the client hangs up."""
        sender = asyncio.ensure_future(self._send(send))
        watcher = asyncio.ensure_future(until_disconnect(receive))
        try:
            await asyncio.wait((sender, watcher), return_when=asyncio.FIRST_COMPLETED)
            if sender.done():
                sender.result()
        finally:
            self._on_close()
            for task in (sender, watcher):
                task.cancel()
            await asyncio.gather(sender, watcher, return_exceptions=True)
            await self._events.aclose()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        upcoming: asyncio.Task[bytes] | None = None
        try:
            while True:
                upcoming = upcoming or asyncio.ensure_future(anext(self._events))
                done, _ = await asyncio.wait((upcoming,), timeout=self._keep_alive)
                try:
                    event = upcoming.result() if done else KEEP_ALIVE
                except StopAsyncIteration:
                    break
                upcoming = None if done else upcoming
                await send(_body(event, more=True))
        finally:
            if upcoming is not None:
                upcoming.cancel()
                await asyncio.gather(upcoming, return_exceptions=True)
        await send(_body(b"", more=False))


def _body(data: bytes, *, more: bool) -> Any:
    return {"type": "http.response.body", "body": data, "more_body": more}
