"""The output pipeline of one row: token → text → stop texts → reasoning → calls → events.

Pure and incremental, one for streaming and not: a whole answer is the fold of its stream. Knows no
arrays and no clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.engine.detokenizer import Detokenizer
from core.engine.events import CallEnd, ReasoningDelta, ToolCallDelta
from core.engine.reasoning import PlainText, ReasoningSplitter
from core.engine.stops import StopMatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from core.engine.parsing import AnswerParser, Found, Piece


class OutputPipeline:
    """Turns a row's tokens into the events that its caller sees.

    Attributes:
        called: whether the answer has called a tool.
        characters: characters of text so far, markup included.
        cut: whether the answer ended within a call.
        repairs: the kinds of repair that the markup of its calls needed.
        reasoning_tokens: tokens that brought reasoning, or came while its channel was open.
    """

    def __init__(
        self,
        *,
        decode: Callable[[Sequence[int]], str],
        stops: Sequence[str],
        parser: AnswerParser | None = None,
        min_tokens: int = 0,
    ) -> None:
        """Take what tokens become and what text is read for.

        Args:
            decode: tokens to text.
            stops: texts that end the answer.
            parser: reads the text; None: it is all content.
            min_tokens: tokens whose text is not searched for stop texts.
        """
        self._detokenizer = Detokenizer(decode)
        self._stops = StopMatcher(stops)
        self._parser = parser or PlainText()
        self._unstoppable = min_tokens
        self.called = False
        self.characters = 0
        self.cut = False
        self.repairs: set[str] = set()
        self.reasoning_tokens = 0

    @property
    def stopped(self) -> bool:
        """Whether a stop text ended the answer."""
        return self._stops.stopped

    def push(self, token: int) -> Iterator[Piece]:
        """Take one token that is not EOS and yield what it brings."""
        thought = isinstance(self._parser, ReasoningSplitter) and self._parser.inside
        for piece in self._read(self._text(token)):
            thought = thought or isinstance(piece, ReasoningDelta)
            yield piece
        self.reasoning_tokens += thought

    def flush(self, *, ended: bool = True) -> Iterator[Piece]:
        """Yield what was held back: the row is over.

        Args:
            ended: whether the model ended the answer, and no limit.
        """
        yield from self._read(self._stops.push(self._detokenizer.flush()))
        if not self._stops.stopped:
            yield from self._read(self._stops.flush())
        yield from self._noting(self._parser.flush(cut=self.stopped or not ended))

    def _text(self, token: int) -> str:
        """Return the text that a token completes, up to a stop text."""
        text = self._detokenizer.push(token)
        self.characters += len(text)
        if self._unstoppable > 0:
            self._unstoppable -= 1
            return text
        return self._stops.push(text)

    def _read(self, text: str) -> Iterator[Piece]:
        if text:
            yield from self._noting(self._parser.push(text))

    def _noting(self, found: Iterable[Found]) -> Iterator[Piece]:
        for piece in found:
            if isinstance(piece, CallEnd):
                self.cut = not piece.complete
                self.repairs |= set(piece.repairs)
                continue
            self.called = self.called or isinstance(piece, ToolCallDelta)
            yield piece
