"""The parser of an answer: text, and calls in between. Imports no arrays."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping

from core.engine.events import CallEnd, ReasoningDelta, TextDelta, ToolCallDelta
from core.engine.parsing import AnswerParser, Found, Piece
from core.engine.request import ToolUse
from core.engine.tools.blocks import Body
from core.engine.tools.calls import Calls, NewId, Reading, Steps
from core.engine.tools.source import Source, Stops

_BEGINNINGS_OF_LINES = {"{": r"(?<![^\n])\{", "[": r"(?<![^\n])\["}


class Content:
    """The text around calls: white space next to a call is none of it.

    White space waits for the text that follows it. Where no call is made, all of it comes out.
    """

    def __init__(self) -> None:
        self._white: list[str] = []
        self.said = False

    def say(self, text: str, *, called: bool) -> str:
        """Return what may be shown now."""
        body = text.rstrip()
        if not body:
            self._white.append(text)
            return ""
        shown = "".join(self._white) + body
        if called and not self.said:
            shown = shown.lstrip()
        self._white = [text[len(body) :]]
        self.said = True
        return shown

    def end(self, *, called: bool) -> str:
        """Return what was kept back: the answer is over."""
        return "" if called else "".join(self._white)


class PlainAnswer:
    """Passes text through: no tools may be called."""

    @property
    def within_call(self) -> bool:
        """Return False."""
        return False

    def push(self, text: str) -> Iterable[Found]:
        """Return it."""
        return [TextDelta(text=text)] if text else []

    def flush(self, *, cut: bool = False) -> Iterable[Found]:  # noqa: ARG002
        """Return nothing: nothing was held back."""
        return []


class SteppedParser:
    """Runs a generator of events over text that grows."""

    def __init__(self, source: Source, steps: Steps[None], reading: Reading | None = None) -> None:
        self._source = source
        self._steps = steps
        self._reading = reading

    @property
    def within_call(self) -> bool:
        """Whether the text so far ends within a call."""
        return self._reading is not None and self._reading.within

    def push(self, text: str) -> Iterable[Found]:
        """Take more text and return what it decides."""
        self._source.push(text)
        return list(joined(_until_it_waits(self._steps)))

    def flush(self, *, cut: bool = False) -> Iterable[Found]:
        """Return what was held back."""
        self._source.over, self._source.cut = True, cut
        return list(joined(_until_it_waits(self._steps)))


def _until_it_waits(steps: Generator[Found | None, None, None]) -> Iterator[Found]:
    while (piece := next(steps, None)) is not None:
        yield piece


def joined(found: Iterable[Found]) -> Iterator[Found]:
    """Yield neighbours of one kind as one."""
    run: list[Piece] = []
    for piece in found:
        if isinstance(piece, CallEnd):
            if run:
                yield _one(run)
            run = []
            yield piece
            continue
        if run and not _continues(run[-1], piece):
            yield _one(run)
            run = []
        run.append(piece)
    if run:
        yield _one(run)


def _continues(last: Piece, piece: Piece) -> bool:
    if isinstance(piece, ToolCallDelta):
        return isinstance(last, ToolCallDelta) and piece.name is None and last.name is None
    return type(last) is type(piece)


def _one(run: list[Piece]) -> Piece:
    first = run[0]
    if len(run) == 1:
        return first
    if isinstance(first, ToolCallDelta):
        return ToolCallDelta(
            index=first.index,
            arguments="".join(p.arguments for p in run if isinstance(p, ToolCallDelta)),
        )
    text = "".join(p.text for p in run if isinstance(p, TextDelta | ReasoningDelta))
    return ReasoningDelta(text=text) if isinstance(first, ReasoningDelta) else TextDelta(text=text)


def parse_answer(bodies: Mapping[str, Body], tools: ToolUse, new_id: NewId) -> AnswerParser:
    """Return a parser of text with calls.

    Args:
        bodies: what follows each marker that may begin calls; `{` and `[` count at the beginning of
            a line only.
        tools: what may be called.
        new_id: makes the id of a call.
    """
    if not tools.tools or tools.mode == "none":
        return PlainAnswer()
    source = Source()
    reading = Reading(source, Calls(tools, new_id))
    return SteppedParser(source, _answer(reading, bodies), reading)


def _answer(reading: Reading, bodies: Mapping[str, Body]) -> Steps[None]:
    source, content = reading.source, Content()
    stops = Stops(
        [marker for marker in bodies if marker not in _BEGINNINGS_OF_LINES],
        [_BEGINNINGS_OF_LINES[marker] for marker in bodies if marker in _BEGINNINGS_OF_LINES],
    )
    markers = sorted(bodies, key=len, reverse=True)
    while True:
        text = yield from source.until(stops)
        if not text:
            if (yield from source.ended()):
                break
            reading.within = True
            text = yield from _block(reading, bodies, markers)
            reading.within = False
        shown = content.say(text, called=reading.calls.count > 0) if text else ""
        if shown:
            yield TextDelta(text=shown)
    rest = content.end(called=reading.calls.count > 0)
    if rest:
        yield TextDelta(text=rest)


def _block(reading: Reading, bodies: Mapping[str, Body], markers: list[str]) -> Steps[str]:
    """Read what a marker begins; return what of it is text after all."""
    source = reading.source
    source.hold()
    for marker in markers:
        if (yield from source.skip(marker)):
            done = yield from bodies[marker](reading)
            left = "" if done else source.unsettled()
            source.release()
            if left and (yield from source.ended()):
                yield from reading.calls.end(CallEnd(complete=False))
            return left
    return ""
