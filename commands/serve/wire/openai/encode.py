"""From an answer's events to the bytes of the OpenAI protocol, whole or in chunks.

One encoder per request: it holds what every chunk repeats. Knows nothing of how bytes travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import UNSET

from commands.serve.wire.openai import answers
from commands.serve.wire.openai.usage import sum_usage
from core.engine.events import ReasoningDelta, TextDelta, ToolCallDelta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commands.serve.wire.openai.fold import Fold
    from core.engine.events import Finished, Position, Usage

_NEVER = -9999.0

_encode = msgspec.json.Encoder().encode

Piece = TextDelta | ReasoningDelta | ToolCallDelta


class AnswerEncoder(Protocol):
    """Writes the answers to one request, whole or as a stream."""

    @property
    def id(self) -> str:
        """What the request is called."""
        ...

    def opening(self, choice: int) -> bytes | None:
        """Return the chunk before the first piece of a choice, if there is one."""
        ...

    def piece(self, choice: int, event: Piece) -> bytes | None:
        """Return the chunk of an event, or None if the protocol has no word for it."""
        ...

    def closing(self, choice: int, finished: Finished, usages: Sequence[Usage]) -> bytes:
        """Return the last chunk of a choice.

        Args:
            choice: which.
            finished: how it ended.
            usages: what all choices took, with the last choice that ends; else empty.
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

    def opening(self, choice: int) -> bytes:
        """Return the chunk that says who speaks."""
        return self._chunk(choice, answers.Delta(role="assistant", content=""))

    def piece(self, choice: int, event: Piece) -> bytes:
        """Return the chunk of an event."""
        return self._chunk(choice, _delta(event))

    def closing(self, choice: int, finished: Finished, usages: Sequence[Usage]) -> bytes:
        """Return the chunk with the finish reason and, if it is the last, the usage."""
        return self._chunk(choice, answers.Delta(), finished, usages)

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
                    message=_message(fold),
                    logprobs=_logprobs(finished.logprobs),
                    finish_reason=finished.reason,
                )
                for index, (fold, finished) in enumerate(zip(folds, endings, strict=True))
            ],
            usage=sum_usage([finished.usage for finished in endings], reasoning=True),
        )
        return _encode(answer)

    def _chunk(
        self,
        choice: int,
        delta: answers.Delta,
        finished: Finished | None = None,
        usages: Sequence[Usage] = (),
    ) -> bytes:
        reason = finished.reason if finished else None
        chunk = answers.ChatChunk(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[answers.ChunkChoice(index=choice, delta=delta, finish_reason=reason)],
            usage=sum_usage(usages, reasoning=True) if usages else UNSET,
        )
        return _encode(chunk)


@dataclass(frozen=True, kw_only=True)
class TextEncoder:
    """Writes continuations of a text."""

    id: str
    """`cmpl-…`."""
    created: int
    """Unix seconds."""
    model: str
    """The served model, whatever the request named."""

    def opening(self, choice: int) -> None:  # noqa: ARG002
        """Return nothing: a continuation starts with its text."""
        return

    def piece(self, choice: int, event: Piece) -> bytes | None:
        """Return the chunk of a text delta."""
        if isinstance(event, TextDelta):
            return self._chunk(answers.TextChoice(index=choice, text=event.text))
        return None

    def closing(self, choice: int, finished: Finished, usages: Sequence[Usage]) -> bytes:
        """Return the chunk with the finish reason and, if it is the last, the usage."""
        last = answers.TextChoice(index=choice, text="", finish_reason=finished.reason)
        return self._chunk(last, usages=usages)

    def whole(self, folds: Sequence[Fold]) -> bytes:
        """Return the whole continuations."""
        endings = [fold.finished for fold in folds if fold.finished]
        choices = [
            answers.TextChoice(
                index=index,
                text=fold.text,
                logprobs=_logprobs(finished.logprobs),
                finish_reason=finished.reason,
            )
            for index, (fold, finished) in enumerate(zip(folds, endings, strict=True))
        ]
        return self._chunk(*choices, usages=[finished.usage for finished in endings])

    def _chunk(self, *choices: answers.TextChoice, usages: Sequence[Usage] = ()) -> bytes:
        chunk = answers.TextCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=list(choices),
            usage=sum_usage(usages, reasoning=False) if usages else UNSET,
        )
        return _encode(chunk)


def _delta(event: Piece) -> answers.Delta:
    if isinstance(event, TextDelta):
        return answers.Delta(content=event.text)
    if isinstance(event, ReasoningDelta):
        return answers.Delta(reasoning=event.text, reasoning_content=event.text)
    # What a call begins with comes once: clients join the texts of equal names.
    call = answers.ToolCallDelta(
        index=event.index,
        id=event.id or UNSET,
        type="function" if event.id else UNSET,
        function=answers.CalledDelta(name=event.name or UNSET, arguments=event.arguments),
    )
    return answers.Delta(tool_calls=[call])


def _message(fold: Fold) -> answers.AnswerMessage:
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
        tool_calls=calls or UNSET,
    )


def _logprobs(positions: Sequence[Position] | None) -> answers.Logprobs | None:
    if positions is None:
        return None
    return answers.Logprobs(content=[_position(one) for one in positions])


def _position(position: Position) -> answers.PositionLogprobs:
    """Return an entry in mlx-lm's form: with alternatives it is the likeliest of them."""
    chosen = position.chosen
    top = [
        answers.TokenLogprob(id=one.token, token=one.piece, logprob=_finite(one.logprob))
        for one in position.top
    ]
    if not top:
        return answers.PositionLogprobs(id=chosen.token, logprob=_finite(chosen.logprob))
    return answers.PositionLogprobs(
        id=top[0].id, token=top[0].token, logprob=top[0].logprob, top_logprobs=top
    )


def _finite(logprob: float) -> float:
    # JSON has neither infinity nor NaN; this is the protocol's word for "never".
    return logprob if logprob > _NEVER else _NEVER
