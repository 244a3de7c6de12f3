"""The calls of an answer: numbered, named, and written piece by piece. Imports no arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from core.engine.events import ToolCallDelta
from core.engine.parsing import Piece
from core.engine.request import ToolUse
from core.engine.tools.source import Source, Written

T = TypeVar("T")
NewId: TypeAlias = Callable[[], str]
Steps: TypeAlias = Generator[Piece | None, None, T]
"""Yields events (None: waits for text) and returns a T."""

NAME = re.compile(r"[\w.\-:/]+")
LONGEST_NAME = 256
"""Characters of a function's name."""


class Calls:
    """Writes the deltas of one call after the other.

    A name that no tool has is passed on as the model wrote it, as OpenAI does: the caller can tell
    the model so. Where only one call is asked for, the ones after the first are read and dropped.
    """

    def __init__(self, tools: ToolUse, new_id: NewId) -> None:
        self._schemas = {tool.name: tool.parameters for tool in tools.tools}
        self._parallel = tools.parallel
        self._new_id = new_id
        self.count = 0

    def known(self, name: str) -> bool:
        """Tell whether a tool has this name."""
        return name in self._schemas

    def named(self, name: str) -> str:
        """Return the tool's name that a model means, or what it wrote."""
        stripped = name.strip()
        short = stripped.removeprefix("functions.")
        return next((one for one in (name, stripped, short) if self.known(one)), stripped)

    def parameters(self, name: str) -> Mapping[str, Any]:
        """Return the JSON Schema of a tool's arguments; empty for one that is not known."""
        return self._schemas.get(name, {})

    def open(self, name: str) -> Iterator[ToolCallDelta]:
        """Begin a call."""
        self.count += 1
        if not self._dropped():
            yield ToolCallDelta(index=self.count - 1, id=self._new_id(), name=name)

    def write(self, arguments: str) -> Iterator[ToolCallDelta]:
        """Add to the arguments of the call that was begun last."""
        if arguments and not self._dropped():
            yield ToolCallDelta(index=self.count - 1, arguments=arguments)

    def _dropped(self) -> bool:
        return self.count > 1 and not self._parallel


class Reading:
    """What the readers of a family's markup share: the text, and the calls found in it.

    Attributes:
        source: the text.
        calls: what was found.
        within: whether a marker was read and what it begins is not over.
    """

    def __init__(self, source: Source, calls: Calls) -> None:
        self.source = source
        self.calls = calls
        self.within = False

    def plausible(self, name: str) -> bool:
        """Tell whether this may be a function's name: a tool's, or one without white space."""
        return self.calls.known(name) or (
            len(name) <= LONGEST_NAME and NAME.fullmatch(name) is not None
        )

    def announce(self, name: str) -> Steps[None]:
        """Begin a call: from here on what was read is no text."""
        self.source.release()
        yield from self.calls.open(name)

    def stream(self, written: Written[T]) -> Steps[T]:
        """Send what is written as arguments of the call."""
        while True:
            try:
                part = next(written)
            except StopIteration as end:
                result: T = end.value
                return result
            if part is None:
                yield None
            else:
                yield from self.calls.write(part)
