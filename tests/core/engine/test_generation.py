"""The caller's end: blocking and async, across threads, with cancellation."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise

import pytest

from core.engine.events import Event, Finished, TextDelta, Usage
from core.engine.generation import Generation
from core.errors import EngineFailed

END = Finished(
    reason="stop",
    usage=Usage(
        prompt_tokens=1,
        completion_tokens=1,
        cached_tokens=0,
        lane="batched",
        prefill_seconds=0,
        decode_seconds=0,
    ),
)


def produce(generation: Generation, count: int) -> threading.Thread:
    def work() -> None:
        for number in range(count):
            generation.put(TextDelta(text=str(number)))
        generation.put(END)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def numbers(events: list[Event]) -> list[int]:
    return [int(event.text) for event in events if isinstance(event, TextDelta)]


def test_blocking_iteration_sees_every_event_in_order() -> None:
    generation = Generation(prompt_tokens=1)
    thread = produce(generation, 500)
    events = list(generation)
    thread.join()
    assert numbers(events) == list(range(500))
    assert events[-1] is END


def test_async_iteration_sees_every_event_in_order() -> None:
    async def collect() -> list[Event]:
        generation = Generation(prompt_tokens=1)
        produce(generation, 500)
        return [event async for event in generation]

    events = asyncio.run(collect())
    assert all(b == a + 1 for a, b in pairwise(numbers(events)))
    assert len(events) == 501


def test_events_put_before_anyone_listens_are_kept() -> None:
    async def collect() -> list[Event]:
        generation = Generation(prompt_tokens=1)
        generation.put(TextDelta(text="1"))
        generation.put(END)
        return [event async for event in generation]

    assert len(asyncio.run(collect())) == 2


def test_a_failure_comes_after_the_events_before_it() -> None:
    generation = Generation(prompt_tokens=1)
    generation.put(TextDelta(text="1"))
    generation.fail(EngineFailed("broken"))
    events = iter(generation)
    assert next(events) == TextDelta(text="1")
    with pytest.raises(EngineFailed, match="broken"):
        next(events)


def test_cancel_wakes_a_waiting_reader_and_tells_the_engine_once() -> None:
    told: list[Generation] = []
    generation = Generation(prompt_tokens=1, on_cancel=told.append)
    reader = threading.Thread(target=lambda: list(generation))
    reader.start()
    generation.cancel()
    generation.cancel()
    reader.join(5)
    assert not reader.is_alive()
    assert told == [generation]


def test_cancel_wakes_an_async_reader() -> None:
    async def read() -> list[Event]:
        generation = Generation(prompt_tokens=1)
        threading.Timer(0.05, generation.cancel).start()
        return [event async for event in generation]

    assert asyncio.run(asyncio.wait_for(read(), 5)) == []


def test_putting_after_the_readers_loop_has_closed_is_harmless() -> None:
    generation = Generation(prompt_tokens=1)

    async def read() -> list[Event]:
        return [event async for event in generation]

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(read(), 0.05))
    generation.put(TextDelta(text="1"))
    generation.put(TextDelta(text="2"))
