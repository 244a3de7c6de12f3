"""The calls of an answer: numbered, named, and written piece by piece. Imports no arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping
from io import StringIO
from typing import Any, TypeAlias, TypeVar

from core.engine.events import CallEnd, ToolCallDelta
from core.engine.parsing import Found
from core.engine.request import ToolUse
from core.engine.tools.source import SPACE, Source, Stops, Wait, Written
from core.engine.tools.tolerant import JSON, JsonReader, Notation

T = TypeVar("T")
NewId: TypeAlias = Callable[[], str]
Steps: TypeAlias = Generator[Found | None, None, T]
"""Yields events (None: waits for text) and returns a T."""

NAME = re.compile(r"[\w.\-:/]+")
LONGEST_NAME = 256
"""Characters of a function's name."""
_PROSE = re.compile(r"[\w#*\-]")
"""What prose begins with, and the rest of a damaged string does not."""


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

    def end(self, end: CallEnd) -> Iterator[CallEnd]:
        """End the call that was begun last."""
        if not self._dropped():
            yield end

    def _dropped(self) -> bool:
        return self.count > 1 and not self._parallel


class Draft:
    """The arguments of one call: as they go out if all is well, and as the model wrote them.

    While both are the same they go out as they grow. From the first repair on they are kept back
    until it is clear which of the two it is.
    """

    def __init__(self, source: Source, *, verbatim: bool) -> None:
        """Begin with what the source reads next.

        Args:
            source: the text.
            verbatim: whether arguments are JSON: what needs no repair stands as it was written.
                Otherwise they are converted from other markup and sent as they are read.
        """
        self._source = source
        self._verbatim = verbatim
        self._tape = source.start_tape()
        self._raw = StringIO()
        self._written = StringIO()
        self._held = False

    def add(self, part: str) -> str:
        """Add what was written for the text read since the last part; return what to send."""
        if not self._verbatim:
            self._rewind()
            return part
        raw = self._rewind()
        if not self._held and part == raw:
            return part
        self._held = True
        self._raw.write(raw)
        self._written.write(part)
        return ""

    def replace(self, text: str, sent: str = "") -> None:
        """Put other arguments in place of those that were written.

        Args:
            text: all of them.
            sent: what `add` has returned, which did not go out after all.
        """
        raw = sent + self._raw.getvalue() + self._rewind()
        self._raw, self._written, self._held = StringIO(), StringIO(), True
        self._raw.write(raw)
        self._written.write(text)

    def restart(self) -> None:
        """Begin again with what the source reads next."""
        self._rewind()

    def kept(self) -> str:
        """Return the arguments that were kept back."""
        return self._written.getvalue()

    def rest(self) -> str:
        """Return all that has not gone out, as the model wrote it."""
        return self._raw.getvalue() + self._rewind()

    def drop(self) -> None:
        """Take nothing more."""
        self._source.stop_tape(self._tape)

    def _rewind(self) -> str:
        text = self._tape.getvalue()
        self._tape.seek(0)
        self._tape.truncate()
        return text


class Reading:
    """What the readers of a family's markup share: the text, and the calls found in it.

    Attributes:
        source: the text.
        calls: what was found.
        within: whether a marker was read and what it begins is not over.
        calling: whether a call was begun and not ended.
        ends: texts that end a call, and what is damaged in it.
        around: what the model writes between a call and these texts.
        closers: what it writes between the arguments and these texts, the innermost first.
        repairs: the kinds of repair that the call needed.
    """

    def __init__(self, source: Source, calls: Calls) -> None:
        self.source = source
        self.calls = calls
        self.within = False
        self.calling = False
        self.ends: tuple[str, ...] = ()
        self.around: tuple[str, ...] = ()
        self.closers: tuple[str, ...] = ()
        self.repairs: set[str] = set()
        self._draft: Draft | None = None
        self._lines = 0  # that ended behind the call

    def start(self, *ends: str) -> None:
        """Begin with the markup of a call.

        Args:
            ends: texts that end it.
        """
        self.ends, self.around = ends, ()
        self.repairs.clear()

    def plausible(self, name: str) -> bool:
        """Tell whether this may be a function's name: a tool's, or one without white space."""
        return self.calls.known(name) or (
            len(name) <= LONGEST_NAME and NAME.fullmatch(name) is not None
        )

    def json(self, notation: Notation = JSON, *ends: str) -> JsonReader:
        """Return a reader of a value in this call.

        Args:
            notation: how it is written.
            ends: more texts that end it.
        """
        return JsonReader(self.source, notation, ends=(*ends, *self.ends), repairs=self.repairs)

    def announce(self, name: str, draft: Draft | None = None) -> Steps[None]:
        """Begin a call, and end the one before it. What was read for it is not shown as text.

        Args:
            name: the function.
            draft: its arguments; None: they begin here.
        """
        noted = set(self.repairs)
        yield from self.close()
        self.repairs |= noted
        self.source.release()
        yield from self.calls.open(name)
        self.calling = True
        self._lines = 0
        self.closers = self.around
        self._draft = draft

    def adopt(self, draft: Draft) -> None:
        """Let the arguments be those that this one has taken."""
        if self._draft and self._draft is not draft:
            self._draft.drop()
        self._draft = draft

    def begin(self, *, verbatim: bool = True) -> None:
        """Let the arguments begin here."""
        self.adopt(Draft(self.source, verbatim=verbatim))

    def put(self, part: str) -> Steps[None]:
        """Send more of the arguments."""
        if self._draft is None:
            self.begin()
        if self._draft:
            yield from self.calls.write(self._draft.add(part))

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
                yield from self.put(part)

    def finish(self, *, good: bool, loose: bool = False) -> Steps[bool]:
        """End the call that was begun, if there is one; return whether there was.

        A complete call with more text behind it is damaged: a quote in a string may have ended it
        early. Text that the limit has cut may be the beginning of another call: that is shown.

        Args:
            good: whether the call was complete, and what follows is none.
            loose: whether prose may follow in a line of its own.
        """
        if not self.calling:
            return False
        if self.source.held and self.source.cut and (yield from self.source.ended()):
            yield from self.close()
            return False
        if good:
            good = yield from self._may_end(loose=loose)
        yield from self.close() if good else self._spill()
        return True

    def _may_end(self, *, loose: bool) -> Wait[bool]:
        """Return whether what comes next may follow a complete call."""
        source = self.source
        yield from self.gap()
        if (yield from source.ended()):
            return True
        if loose and self._lines and _PROSE.match((yield from source.peek())):
            return True
        for end in self.ends:
            if (yield from source.reaches(end)):
                return True
        return False

    def gap(self) -> Wait[None]:
        """Read white space behind a call."""
        while part := (yield from self.source.run(SPACE)):
            self._lines += part.count("\n")

    def close(self) -> Steps[None]:
        """End the call that was begun, if there is one: it was complete."""
        if not self.calling:
            return
        if self._draft:
            yield from self.calls.write(self._draft.kept())
        yield from self._end(CallEnd(complete=True, repairs=tuple(sorted(self.repairs))))

    def _spill(self) -> Steps[None]:
        """Send the rest of the call as the model wrote it, up to what ends it."""
        draft = self._draft or Draft(self.source, verbatim=True)
        stops = Stops(self.ends)
        while (yield from self.source.until(stops)):
            pass
        ended = yield from self.source.ended()
        cut = ended and self.source.cut
        rest = draft.rest() if ended else draft.rest().rstrip()
        self._draft = draft
        yield from self.calls.write(rest if cut else self._without_closers(rest))
        yield from self._end(CallEnd(complete=not cut))

    def _without_closers(self, rest: str) -> str:
        for closer in reversed(self.closers):
            if rest.rstrip().endswith(closer):
                rest = rest.rstrip().removesuffix(closer).rstrip()
        return rest

    def _end(self, end: CallEnd) -> Steps[None]:
        yield from self.calls.end(end)
        if self._draft:
            self._draft.drop()
        self.calling, self._draft = False, None
        self.repairs.clear()
