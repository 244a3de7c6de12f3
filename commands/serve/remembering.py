"""The memory vault as a server keeps it: open, and written by one run at a time.

Runs that were started over HTTP are followed by any number of clients.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from commands.serve.failures import unexpected_message
from commands.serve.sse import DONE, data_event
from commands.serve.wire.memory import error_message
from commands.serve.workers import Workers
from core.errors import MlxbunError
from core.memory.asking import Cancelled
from core.memory.opening import open_memory, vault_id

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from core.memory.opening import Memory
    from core.paths import Paths

    # Takes what sends messages, and what says whether to stop; runs in a thread.
    Work = Callable[[Callable[[list[bytes]], None], Callable[[], bool]], None]

_STOPPED = "The run was stopped. The vault is as it was."


class KeptMemory:
    """Keeps the vault open between requests, so that its index stays warm. Safe in any thread."""

    def __init__(self) -> None:
        self._kept: tuple[str, Memory] | None = None

    def get(self, paths: Paths) -> Memory:
        """Return the vault that is there now.

        Raises:
            VaultMissing: there is none.
        """
        memory = open_memory(paths)
        known = vault_id(memory.root)  # another one, where the vault was made again
        if self._kept is None or self._kept[0] != known or self._kept[1].root != memory.root:
            self._kept = known, memory
        return self._kept[1]


class Syntheses:
    """Starts a run for the first client; later ones follow it. Lives on the event loop."""

    def __init__(self) -> None:
        self._running: dict[bool, Run] = {}
        self._workers = Workers()

    async def frames(
        self, work: Work, *, dry: bool, stopping: Callable[[], bool]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of the run that is under way, or of a new one, from its first on.

        Args:
            work: does a run; not called where one is under way.
            dry: whether it only plans; those that plan share a run of their own.
            stopping: whether the server ends, and runs with it.
        """
        run = await self._join(work, dry=dry, stopping=stopping)
        run.followers += 1
        try:
            async with aclosing(run.frames()) as frames:
                async for frame in frames:
                    yield frame
        finally:
            run.leave()

    async def _join(self, work: Work, *, dry: bool, stopping: Callable[[], bool]) -> Run:
        while (running := self._running.get(dry)) is not None and running.abandoned:
            await running.ended()  # all have left it, so it stops soon
        if running is not None:
            return running
        run = Run(stopping)
        self._running[dry] = run
        run.start(self._workers, work, on_end=lambda: self._running.pop(dry))
        return run


class Run:
    """One run, its events so far, and how many clients follow it."""

    def __init__(self, stopping: Callable[[], bool]) -> None:
        self.followers = 0
        self.abandoned = False
        self._stopping = stopping
        self._frames: list[bytes] = []
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def start(self, workers: Workers, work: Work, *, on_end: Callable[[], object]) -> None:
        """Begin; `on_end` is called when it is over."""
        loop = asyncio.get_running_loop()

        def send(messages: list[bytes]) -> None:
            frames = b"".join(map(data_event, messages))
            with suppress(RuntimeError):  # the loop is closed: the process ends
                loop.call_soon_threadsafe(self._add, frames)

        async def run() -> None:
            try:
                await workers.run(work, send, self._is_cancelled)
                self._add(DONE)
            except Cancelled:
                self._add(data_event(error_message(_STOPPED)))
            except MlxbunError as error:
                message = f"{error.message} {error.hint}" if error.hint else error.message
                self._add(data_event(error_message(message)))
            except Exception as error:
                self._add(data_event(error_message(unexpected_message(error))))
            finally:
                on_end()

        self._task = asyncio.ensure_future(run())
        self._task.add_done_callback(lambda _task: self._wake())

    def leave(self) -> None:
        """Note that a client has left; without clients, the run stops at its next stage."""
        self.followers -= 1
        if not self.followers:
            self.abandoned = True

    async def ended(self) -> None:
        """Wait for the end."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Yield the events from the first on, until the run is over."""
        seen = 0
        while True:
            news, over = self._news, self._task is None or self._task.done()
            for frame in self._frames[seen:]:
                seen += 1
                yield frame
            if over:
                return
            if seen == len(self._frames):
                await news.wait()

    def _is_cancelled(self) -> bool:
        return self.abandoned or self._stopping()

    def _add(self, frames: bytes) -> None:
        self._frames.append(frames)
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()
