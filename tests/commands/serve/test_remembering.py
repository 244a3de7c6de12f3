"""Runs that several clients follow: one at a time, stopped when all have left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from commands.serve.remembering import Syntheses
from core.errors import VaultBusy
from core.memory.asking import Cancelled

Tell = Callable[[list[bytes]], None]


class Scripted:
    """A run that sends what it is given, and waits at a gate."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.begun = 0
        self.cancelled = 0
        self.gate = threading.Event()
        self._error = error

    def __call__(self, tell: Tell, cancelled: Callable[[], bool]) -> None:
        self.begun += 1
        tell([b"1"])
        while not self.gate.wait(0.005):
            if cancelled():
                self.cancelled += 1
                raise Cancelled
        if self._error:
            raise self._error
        tell([b"2", b"3"])


def _frames(
    runs: Syntheses, work: Scripted, *, dry: bool = False, stopping: Callable[[], bool] = bool
) -> AsyncGenerator[bytes, None]:
    return runs.frames(work, dry=dry, stopping=stopping)


async def _all(frames: AsyncGenerator[bytes, None]) -> bytes:
    async with aclosing(frames):
        return b"".join([frame async for frame in frames])


WHOLE = b"data: 1\n\ndata: 2\n\ndata: 3\n\ndata: [DONE]\n\n"
STOPPED = b'data: {"type":"error","message":"The run was stopped. The vault is as it was."}\n\n'


def test_a_later_client_follows_the_first_from_the_beginning() -> None:
    async def play() -> None:
        runs, work, other = Syntheses(), Scripted(), Scripted()
        first = asyncio.ensure_future(_all(_frames(runs, work)))
        while not work.begun:
            await asyncio.sleep(0.001)
        second = asyncio.ensure_future(_all(_frames(runs, other)))
        await asyncio.sleep(0.02)
        work.gate.set()
        assert await first == await second == WHOLE
        assert (work.begun, other.begun) == (1, 0)
        other.gate.set()
        assert await _all(_frames(runs, other)) == WHOLE
        assert other.begun == 1

    asyncio.run(play())


def test_plans_have_a_run_of_their_own() -> None:
    async def play() -> None:
        runs, work, plan = Syntheses(), Scripted(), Scripted()
        running = asyncio.ensure_future(_all(_frames(runs, work)))
        plan.gate.set()
        assert await _all(_frames(runs, plan, dry=True)) == WHOLE
        work.gate.set()
        assert await running == WHOLE

    asyncio.run(play())


def test_the_run_stops_when_the_last_client_leaves_and_not_before() -> None:
    async def play() -> None:
        runs, work = Syntheses(), Scripted()
        first, second = _frames(runs, work), _frames(runs, work)
        assert await anext(first) == await anext(second) == b"data: 1\n\n"
        await first.aclose()
        await asyncio.sleep(0.05)
        assert not work.cancelled
        await second.aclose()
        again = Scripted()
        again.gate.set()
        assert await _all(_frames(runs, again)) == WHOLE  # not the run that is being stopped
        assert (work.cancelled, again.begun) == (1, 1)

    asyncio.run(play())


def test_a_failure_is_an_error_and_no_end() -> None:
    async def play() -> None:
        runs = Syntheses()
        busy = Scripted(error=VaultBusy("Another process writes.", hint="Wait."))
        busy.gate.set()
        told = b'data: {"type":"error","message":"Another process writes. Wait."}\n\n'
        assert await _all(_frames(runs, busy)) == b"data: 1\n\n" + told
        defect = Scripted(error=ValueError("a secret"))
        defect.gate.set()
        told = b'data: {"type":"error","message":"The server failed on this request (ValueError)."}'
        assert await _all(_frames(runs, defect)) == b"data: 1\n\n" + told + b"\n\n"

    asyncio.run(play())


def test_a_server_that_ends_stops_the_run() -> None:
    async def play() -> None:
        work = Scripted()
        assert await _all(_frames(Syntheses(), work, stopping=lambda: True)) == (
            b"data: 1\n\n" + STOPPED
        )
        assert work.cancelled == 1

    asyncio.run(play())


def test_a_client_that_leaves_at_once_starts_nothing() -> None:
    async def play() -> None:
        work = Scripted()
        await _frames(Syntheses(), work).aclose()
        await asyncio.sleep(0.01)
        assert not work.begun

    asyncio.run(play())
