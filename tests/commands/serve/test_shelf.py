"""The list of models that is kept for half a minute."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from commands.serve.shelf import Shelf
from commands.serve.workers import Workers


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class _Disk:
    """Counts how often it is read."""

    def __init__(self) -> None:
        self.reads = 0
        self.gate = threading.Event()
        self.gate.set()

    def read(self) -> list[Any]:
        self.reads += 1
        self.gate.wait(5)
        return [self.reads]


def _shelf(disk: _Disk, clock: _Clock) -> Any:
    return Shelf(disk.read, Workers(), clock=clock)


def test_a_list_is_read_again_when_it_is_old_or_wrong() -> None:
    async def main() -> None:
        clock, disk = _Clock(), _Disk()
        shelf = _shelf(disk, clock)
        clock.now += 1
        assert await shelf.models(fresh=False) == [1]
        clock.now += 29
        assert await shelf.models(fresh=False) == [1]
        assert await shelf.models(fresh=True) == [2]
        clock.now += 31
        assert await shelf.models(fresh=False) == [3]
        clock.now += 1
        shelf.forget()
        assert await shelf.models(fresh=False) == [4]

    asyncio.run(main())


def test_many_who_ask_at_once_are_answered_by_two_reads() -> None:
    async def main() -> None:
        clock, disk = _Clock(), _Disk()
        shelf = _shelf(disk, clock)
        disk.gate.clear()
        first = asyncio.ensure_future(shelf.models(fresh=True))
        while not disk.reads:
            await asyncio.sleep(0.01)
        clock.now += 1
        others = [asyncio.ensure_future(shelf.models(fresh=True)) for _ in range(20)]
        await asyncio.sleep(0.05)
        disk.gate.set()
        assert await first == [1]
        assert await asyncio.gather(*others) == [[2]] * 20

    asyncio.run(main())
