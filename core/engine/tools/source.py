"""Text that grows, read as if it were whole. Imports no arrays.

A parser here is a generator: where it needs more text than there is, it yields None, and goes on
when there is more. What it decides depends on the text alone, never on how the text was cut; and
it reads every character once, looking ahead no further than a marker or a token is long.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from io import StringIO
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Wait: TypeAlias = Generator[None, None, T]
"""Waits for text and returns a T."""
Written: TypeAlias = Generator[str | None, None, T]
"""Writes pieces of text (None: waits for more to read) and returns a T."""

SPACE = re.compile(r"\s+")


class Stops:
    """Texts at which reading stops, or patterns of one character."""

    def __init__(self, literals: Iterable[str], patterns: Iterable[str] = ()) -> None:
        self._literals = sorted(literals, key=len, reverse=True)
        self._starts = frozenset(
            literal[:size] for literal in self._literals for size in range(1, len(literal))
        )
        self._longest = max(map(len, self._starts), default=0)
        self.pattern = re.compile("|".join([*map(re.escape, self._literals), *patterns]) or "(?!)")

    def begun(self, text: str, start: int) -> int:
        """Return how many of the last characters of `text[start:]` may begin a stop."""
        for size in range(min(self._longest, len(text) - start), 0, -1):
            if text[-size:] in self._starts:
                return size
        return 0


class Source:
    """Text that is read from its beginning while it still grows at its end.

    While `held`, what is read is remembered: it may turn out to be no call, and is shown then.

    Attributes:
        held: whether it is remembered.
        over: whether no more will come.
        cut: whether something else than the model ended the text, once it is over.
    """

    def __init__(self, text: str = "", *, over: bool = False, cut: bool = False) -> None:
        self._text = text
        self._at = 0
        self._record: list[str] = []
        self._tapes: list[StringIO] = []
        self.held = False
        self.over = over
        self.cut = cut

    def push(self, text: str) -> None:
        """Add to the end. One character that was read stays, for patterns that look behind."""
        self._text = self._text[max(self._at - 1, 0) :] + text
        self._at = min(self._at, 1)

    def _fill(self) -> Wait[None]:
        """Wait until there is more, or it is over."""
        yield None

    def peek(self, count: int = 1) -> Wait[str]:
        """Return the next characters, fewer only at the end."""
        while len(self._text) - self._at < count and not self.over:
            yield from self._fill()
        return self._text[self._at : self._at + count]

    def take(self, count: int) -> str:
        """Read characters that are there."""
        taken = self._text[self._at : self._at + count]
        self._at += len(taken)
        if self.held:
            self._record.append(taken)
        for tape in self._tapes:
            tape.write(taken)
        return taken

    def starts(self, literal: str) -> Wait[bool]:
        """Tell whether the text goes on with this; looks no further than it has to."""
        for size in range(1, len(literal) + 1):
            if len(self._text) - self._at < size:
                ahead = yield from self.peek(size)
            else:
                ahead = self._text[self._at : self._at + size]
            if ahead != literal[:size]:
                return False
        return True

    def skip(self, literal: str) -> Wait[bool]:
        """Read this if the text goes on with it."""
        if (yield from self.starts(literal)):
            self.take(len(literal))
            return True
        return False

    def reaches(self, literal: str) -> Wait[bool]:
        """Return whether this comes next, or as much of it as there is text left."""
        if (yield from self.starts(literal)):
            return True
        size = len(self._text) - self._at
        return self.over and 0 < size < len(literal) and literal.startswith(self._text[self._at :])

    def skip_end(self, literal: str) -> Wait[bool]:
        """Read this, or as much of it as came at the end of the text."""
        found = yield from self.reaches(literal)
        if found:
            self.take(len(literal))
        return found

    def run(self, pattern: re.Pattern[str]) -> Wait[str]:
        """Read what matches, as much as there is; "": the next character does not match.

        The pattern is one class of characters, repeated.
        """
        if not (yield from self.peek()):
            return ""
        match = pattern.match(self._text, self._at)
        return self.take(match.end() - self._at) if match else ""

    def skip_run(self, pattern: re.Pattern[str]) -> Wait[None]:
        """Read all that matches."""
        while (yield from self.run(pattern)):
            pass

    def white(self) -> Wait[None]:
        """Read white space."""
        yield from self.skip_run(SPACE)

    def ahead(self, pattern: re.Pattern[str], longest: int) -> Wait[str]:
        """Return what matches next without reading it; "" too if it is longer than `longest`."""
        while True:
            match = pattern.match(self._text, self._at)
            found = match.group() if match else ""
            if len(found) > longest:
                return ""
            if self._at + len(found) < len(self._text) or self.over:
                return found
            yield from self._fill()

    def until(self, stops: Stops) -> Wait[str]:
        """Read a piece up to the next stop; "": the text is at a stop, or over."""
        while True:
            found = stops.pattern.search(self._text, self._at)
            if found:
                end = found.start()
            elif self.over:
                end = len(self._text)
            else:
                end = len(self._text) - stops.begun(self._text, self._at)
            if found or self.over or end > self._at:
                return self.take(end - self._at)
            yield from self._fill()

    def ended(self) -> Wait[bool]:
        """Tell whether everything was read and no more will come."""
        return not (yield from self.peek())

    def closing(self, ends: Iterable[str]) -> Wait[bool]:
        """Return whether one of these texts comes next, or the model ended the text here."""
        if (yield from self.ended()):
            return not self.cut
        for end in ends:
            if (yield from self.starts(end)):
                return True
        return False

    def hold(self) -> None:
        """Remember everything from here on: it may have to be shown."""
        self._record.clear()
        self.held = True

    def release(self) -> None:
        """Forget what was remembered: it is a call."""
        self._record.clear()
        self.held = False

    def unsettled(self) -> str:
        """Return what was remembered, and forget it."""
        text = "".join(self._record)
        self.release()
        return text

    def start_tape(self) -> StringIO:
        """Return where everything that is read from here on is written too."""
        self._tapes.append(tape := StringIO())
        return tape

    def stop_tape(self, tape: StringIO) -> None:
        """Write nothing more there."""
        self._tapes = [one for one in self._tapes if one is not tape]

    def rest(self) -> str:
        """Read everything that is there."""
        return self.take(len(self._text) - self._at)
