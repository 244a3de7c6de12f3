"""From an answer's events to the bytes of the OpenAI protocol, whole or in chunks.

One encoder per request: it holds what every chunk repeats. Knows nothing of how bytes travel.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import UNSET

from commands.serve.wire.openai import answers
from commands.serve.wire.openai.probabilities import chat_logprobs, text_logprobs
from commands.serve.wire.openai.shape import AnswerShape
from commands.serve.wire.openai.usage import sum_usage
from core.engine.events import ReasoningDelta, TextDelta, ToolCallDelta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commands.serve.wire.openai.fold import Fold
    from core.engine.events import Finished, Position, Usage

_encode = msgspec.json.Encoder().encode

Piece = TextDelta | ReasoningDelta | ToolCallDelta


class AnswerEncoder(Protocol):
    """Writes the answers to one request, whole or as a stream."""

    @property
    def id(self) -> str:
        """What the request is called."""
        ...

    def shaped(self, shape: AnswerShape) -> AnswerEncoder:
        """Return the same encoder for a request whose answer has this shape."""
        ...

    def opening(self, choice: int) -> bytes | None:
        """Return the chunk before the first piece of a choice, if there is one."""
        ...

    def piece(self, choice: int, event: Piece, positions: Sequence[Position]) -> bytes | None:
        """Return the chunk of an event, or None if the protocol has no word for it.

        Args:
            choice: which.
            event: what comes.
            positions: the log-probabilities of the tokens since the last chunk.
        """
        ...

    def closing(
        self,
        choice: int,
        finished: Finished,
        positions: Sequence[Position],
        usages: Sequence[Usage],
    ) -> bytes:
        """Return the last chunk of a choice.

        Args:
            choice: which.
            finished: how it ended.
            positions: the log-probabilities of the tokens since the last chunk.
            usages: what all choices took in their order, with the last that ends; else empty.
        """
        ...

    def whole(self, folds: Sequence[Fold]) -> bytes:
        """Return the answer that is not streamed.

        Args:
            folds: one for each choice, all of them finished.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class ChatEncoder:
    """Writes chat answers."""

    id: str
    """`chatcmpl-…`."""
    created: int
    """Unix seconds."""
    model: str
    """The served model, whatever the request named."""
    shape: AnswerShape = field(default_factory=AnswerShape)
    """What differs between requests."""

    def shaped(self, shape: AnswerShape) -> ChatEncoder:
        """Return the same encoder for a request whose answer has this shape."""
        return replace(self, shape=shape)

    def opening(self, choice: int) -> bytes:
        """Return the chunk that says who speaks."""
        return self._chunk(choice, answers.Delta(role="assistant", content=""))

    def piece(self, choice: int, event: Piece, positions: Sequence[Position]) -> bytes:
        """Return the chunk of an event."""
        delta = _delta(event, legacy=self.shape.function_call)
        return self._chunk(choice, delta, positions=positions)

    def closing(
        self,
        choice: int,
        finished: Finished,
        positions: Sequence[Position],
        usages: Sequence[Usage],
    ) -> bytes:
        """Return the chunk with the finish reason and, if it is the last, the usage."""
        return self._chunk(choice, answers.Delta(), finished, positions=positions, usages=usages)

    def whole(self, folds: Sequence[Fold]) -> bytes:
        """Return the whole answer."""
        endings = [fold.finished for fold in folds if fold.finished]
        answer = answers.ChatCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[
                answers.ChatChoice(
                    index=index,
                    message=_message(fold, legacy=self.shape.function_call),
                    logprobs=chat_logprobs(finished.logprobs),
                    finish_reason=self._reason(finished),
                )
                for index, (fold, finished) in enumerate(zip(folds, endings, strict=True))
            ],
            usage=self._usage([finished.usage for finished in endings]),
        )
        return _encode(answer)

    def _chunk(
        self,
        choice: int,
        delta: answers.Delta,
        finished: Finished | None = None,
        *,
        positions: Sequence[Position] = (),
        usages: Sequence[Usage] = (),
    ) -> bytes:
        chunk = answers.ChunkChoice(
            index=choice,
            delta=delta,
            logprobs=chat_logprobs(positions) or UNSET,
            finish_reason=self._reason(finished) if finished else None,
        )
        return _encode(
            answers.ChatChunk(
                id=self.id,
                created=self.created,
                model=self.model,
                choices=[chunk],
                usage=self._usage(usages) if usages else UNSET,
            )
        )

    def _reason(self, finished: Finished) -> answers.ChatFinishReason:
        legacy = self.shape.function_call and finished.reason == "tool_calls"
        return "function_call" if legacy else finished.reason

    def _usage(self, usages: Sequence[Usage]) -> answers.Usage:
        return sum_usage(usages, each=self.shape.each, reasoning=True)


@dataclass(frozen=True, kw_only=True)
class TextEncoder:
    """Writes continuations of a text."""

    id: str
    """`cmpl-…`."""
    created: int
    """Unix seconds."""
    model: str
    """The served model, whatever the request named."""
    shape: AnswerShape = field(default_factory=AnswerShape)
    """What differs between requests."""

    def shaped(self, shape: AnswerShape) -> TextEncoder:
        """Return the same encoder for a request whose answer has this shape."""
        return replace(self, shape=shape)

    def opening(self, choice: int) -> bytes | None:
        """Return the chunk with the prompt, if it is to be echoed: text is all there is."""
        echoed = self.shape.echoed(choice)
        return self._chunk(answers.TextChoice(index=choice, text=echoed)) if echoed else None

    def piece(self, choice: int, event: Piece, positions: Sequence[Position]) -> bytes | None:
        """Return the chunk of a text delta."""
        if not isinstance(event, TextDelta):
            return None
        logprobs = self._logprobs(choice, positions)
        return self._chunk(answers.TextChoice(index=choice, text=event.text, logprobs=logprobs))

    def closing(
        self,
        choice: int,
        finished: Finished,
        positions: Sequence[Position],
        usages: Sequence[Usage],
    ) -> bytes:
        """Return the chunk with the finish reason and, if it is the last, the usage."""
        last = answers.TextChoice(
            index=choice,
            text="",
            logprobs=self._logprobs(choice, positions),
            finish_reason=finished.reason,
        )
        return self._chunk(last, usages=usages)

    def whole(self, folds: Sequence[Fold]) -> bytes:
        """Return the whole continuations."""
        endings = [fold.finished for fold in folds if fold.finished]
        choices = [
            answers.TextChoice(
                index=index,
                text=self.shape.echoed(index) + fold.text,
                logprobs=self._logprobs(index, finished.logprobs),
                finish_reason=finished.reason,
            )
            for index, (fold, finished) in enumerate(zip(folds, endings, strict=True))
        ]
        return self._chunk(*choices, usages=[finished.usage for finished in endings])

    def _logprobs(
        self, choice: int, positions: Sequence[Position] | None
    ) -> answers.TextLogprobs | None:
        before = len(self.shape.echoed(choice))
        return text_logprobs(positions, arrays=self.shape.arrays, before=before)

    def _chunk(self, *choices: answers.TextChoice, usages: Sequence[Usage] = ()) -> bytes:
        each = self.shape.each
        chunk = answers.TextCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=list(choices),
            usage=sum_usage(usages, each=each, reasoning=False) if usages else UNSET,
        )
        return _encode(chunk)


def _delta(event: Piece, *, legacy: bool) -> answers.Delta:
    if isinstance(event, TextDelta):
        return answers.Delta(content=event.text)
    if isinstance(event, ReasoningDelta):
        return answers.Delta(reasoning=event.text, reasoning_content=event.text)
    # What a call begins with comes once: clients join the texts of equal names.
    function = answers.CalledDelta(name=event.name or UNSET, arguments=event.arguments)
    if legacy:
        return answers.Delta(function_call=function)
    call = answers.ToolCallDelta(
        index=event.index,
        id=event.id or UNSET,
        type="function" if event.id else UNSET,
        function=function,
    )
    return answers.Delta(tool_calls=[call])


def _message(fold: Fold, *, legacy: bool) -> answers.AnswerMessage:
    calls = [
        answers.ToolCall(
            id=call.id, function=answers.Called(name=call.name, arguments=call.arguments)
        )
        for call in fold.calls
    ]
    return answers.AnswerMessage(
        content=None if calls and not fold.text else fold.text,
        reasoning=fold.reasoning or UNSET,
        reasoning_content=fold.reasoning or UNSET,
        tool_calls=calls if calls and not legacy else UNSET,
        function_call=calls[0].function if calls and legacy else UNSET,
    )
