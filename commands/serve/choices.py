"""The answers to one request, read as one: events with the number of their choice, as they come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from core.engine.events import Event
    from core.engine.generation import Generation
    from core.errors import MlxbunError

Numbered = tuple[int, "Event"]


class Choices:
    """The generations of one request, which end together.

    Read them once. What fails one of them is raised, and cancels the others.
    """

    def __init__(self, generations: Sequence[Generation]) -> None:
        self._generations = tuple(generations)

    def __len__(self) -> int:
        return len(self._generations)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the client should know, each once."""
        told = (one for each in self._generations for one in each.warnings)
        return tuple(dict.fromkeys(told))

    def cancel(self) -> None:
        """Let every row go."""
        for generation in self._generations:
            generation.cancel()

    def fail(self, error: MlxbunError) -> None:
        """End all of them with an error."""
        for generation in self._generations:
            generation.fail(error)

    def events(self) -> AsyncGenerator[Numbered, None]:
        """Yield the number of a choice and its next event.

        Raises:
            MlxbunError: what ended one of them.
        """
        return self._only() if len(self._generations) == 1 else self._merged()

    async def _only(self) -> AsyncGenerator[Numbered, None]:
        async for event in self._generations[0]:
            yield 0, event

    async def _merged(self) -> AsyncGenerator[Numbered, None]:
        queue: asyncio.Queue[Numbered | Exception | None] = asyncio.Queue()
        readers = [
            asyncio.ensure_future(_read(number, generation, queue))
            for number, generation in enumerate(self._generations)
        ]
        try:
            running = len(readers)
            while running:
                item = await queue.get()
                if isinstance(item, Exception):
                    raise item
                if item is None:
                    running -= 1
                else:
                    yield item
        finally:
            self.cancel()
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)


async def _read(
    number: int, generation: Generation, queue: asyncio.Queue[Numbered | Exception | None]
) -> None:
    try:
        async for event in generation:
            queue.put_nowait((number, event))
    except Exception as error:  # raised where all of them are read
        queue.put_nowait(error)
    else:
        queue.put_nowait(None)
