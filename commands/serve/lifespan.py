"""How the server ends: on the first signal it finishes what runs, on the second it just ends.

While it drains the listener stays open, so that a new request is told 503 rather than refused a
connection. Knows uvicorn; knows nothing of routes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import uvicorn
from litestar.enums import ScopeType
from litestar.exceptions import NotFoundException
from litestar.middleware import ASGIMiddleware

from commands.serve.racing import unless
from core.errors import EngineStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType

    from litestar.types import ASGIApp, Receive, Scope, Send

    from core.errors import MlxbunError

_Result = TypeVar("_Result")

# After the patience has run out: seconds for the errors of what was cut off to reach the clients.
_GRACE = 1.0

# After the engine was lost: seconds in which requests, /health among them, are told.
_TELLING = 5.0


class Owed(Protocol):
    """A stream's source, as the end of the server sees it."""

    def fail(self, error: MlxbunError) -> None:
        """End it with an error."""
        ...

    def cancel(self) -> None:
        """End it; nobody listens any more."""
        ...


class Drain:
    """Whether the server still takes requests, and what it owes. Lives on the event loop.

    Attributes:
        begun: set once, by `begin`; from then on new requests are refused.
        running: requests that are being answered.
    """

    def __init__(self) -> None:
        self.begun = False
        self.running = 0
        self._owed: set[Owed] = set()
        self._given_up = asyncio.Event()

    def begin(self) -> None:
        """Take no more requests."""
        self.begun = True

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it is answered.

        Raises:
            EngineStopped: the server is draining.
        """
        if self.begun:
            raise EngineStopped(
                "The server is shutting down.", hint="Send the request again when it is back."
            )
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    async def unless_given_up(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return the result of `work`, for which nothing has been sent yet.

        Raises:
            EngineStopped: the server stopped before it was done.
        """
        return await unless(self._given_up.wait(), _cut_off(), work)

    def owe(self, stream: Owed) -> None:
        """Note a stream that is under way."""
        self._owed.add(stream)

    def settle(self, stream: Owed) -> None:
        """Note that a stream is over, and let its row go if it is not."""
        self._owed.discard(stream)
        stream.cancel()

    def give_up(self) -> None:
        """End everything under way with an error."""
        self._given_up.set()
        for stream in self._owed:
            stream.fail(_cut_off())
        self._owed.clear()


def _cut_off() -> EngineStopped:
    return EngineStopped("The server was stopped before the answer was done.")


class CountRequests(ASGIMiddleware):
    """Counts every request that meets a route, and refuses it while the server drains."""

    scopes = (ScopeType.HTTP,)

    def __init__(self, drain: Drain) -> None:
        self._drain = drain

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Pass the request on."""
        if scope.get("method") == "OPTIONS":
            raise NotFoundException  # Litestar adds it to every path; ours is a wrong method too
        with self._drain.request():
            await next_app(scope, receive, send)


class DrainingServer(uvicorn.Server):
    """A uvicorn that ends when a `Drain` has begun and nothing runs any more."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        drain: Drain,
        patience: float,
        alive: Callable[[], bool],
        on_drain: Callable[[int], None],
        on_cut: Callable[[int], None],
    ) -> None:
        """Take what decides about the end.

        Args:
            config: uvicorn's.
            drain: the application's.
            patience: seconds that running answers get.
            alive: says whether the engine can answer; without it the server drains too.
            on_drain: told the number of running requests when the drain begins.
            on_cut: told the number of those that were cut off because their time was over.
        """
        super().__init__(config)
        self._drain = drain
        self._patience = patience
        self._on_drain = on_drain
        self._on_cut: Callable[[int], None] | None = on_cut
        self._alive = alive
        self._deadline: float | None = None
        self._earliest = 0.0

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave signals to `drain_on_signals`; uvicorn would raise them again at its end."""
        return nullcontext()

    async def on_tick(self, counter: int) -> bool:
        """Say whether to end; uvicorn asks ten times a second."""
        return await super().on_tick(counter) or self._drained()

    def _drained(self) -> bool:
        now = time.monotonic()
        if not self._drain.begun and not self._alive():
            # Whoever asks for its health is to hear of it before the listener closes.
            self._earliest = now + _TELLING
            self._drain.begin()
        if not self._drain.begun:
            return False
        if self._deadline is None:
            self._deadline = now + self._patience
            self._on_drain(self._drain.running)
        if now >= self._deadline:
            if self._on_cut and self._drain.running:
                self._on_cut(self._drain.running)
                self._on_cut = None
            self._drain.give_up()
        done = self._drain.running == 0 and now >= self._earliest
        return done or now >= self._deadline + _GRACE


@contextmanager
def drain_on_signals(drain: Drain) -> Iterator[None]:
    """Begin the drain on SIGINT or SIGTERM; end the process at once on the next one."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if drain.begun:
            # Not `sys.exit`: neither a step of the engine nor a thread may delay this.
            os._exit(128 + number)
        drain.begin()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
