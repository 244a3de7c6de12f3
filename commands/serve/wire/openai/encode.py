"""From an answer's events to the bytes of the OpenAI protocol, whole or in chunks.

One encoder per answer: it holds what every chunk repeats. Knows nothing of how bytes travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import msgspec

from commands.serve.wire.openai import schema

if TYPE_CHECKING:
    from core.engine import events

_encode = msgspec.json.Encoder().encode


class AnswerEncoder(Protocol):
    """Writes one answer, whole or as a stream."""

    def opening(self) -> tuple[bytes, ...]:
        """Return the chunks before the first text."""
        ...

    def piece(self, text: str) -> bytes:
        """Return the chunk of a text delta."""
        ...

    def closing(self, finished: events.Finished) -> bytes:
        """Return the last chunk."""
        ...

    def whole(self, text: str, finished: events.Finished) -> bytes:
        """Return the answer that is not streamed."""
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

    def opening(self) -> tuple[bytes, ...]:
        """Return the chunk that says who speaks."""
        return (self._chunk(schema.Delta(role="assistant", content="")),)

    def piece(self, text: str) -> bytes:
        """Return the chunk of a text delta."""
        return self._chunk(schema.Delta(content=text))

    def closing(self, finished: events.Finished) -> bytes:
        """Return the chunk with the finish reason and the usage."""
        return self._chunk(schema.Delta(), finished)

    def whole(self, text: str, finished: events.Finished) -> bytes:
        """Return the whole answer."""
        message = schema.AnswerMessage(content=text)
        answer = schema.ChatCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[schema.ChatChoice(message=message, finish_reason=finished.reason)],
            usage=_usage(finished.usage),
        )
        return _encode(answer)

    def _chunk(self, delta: schema.Delta, finished: events.Finished | None = None) -> bytes:
        reason = finished.reason if finished else None
        chunk = schema.ChatChunk(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[schema.ChunkChoice(delta=delta, finish_reason=reason)],
            usage=_usage(finished.usage) if finished else msgspec.UNSET,
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

    def opening(self) -> tuple[bytes, ...]:
        """Return nothing: a continuation starts with its text."""
        return ()

    def piece(self, text: str) -> bytes:
        """Return the chunk of a text delta."""
        return self._chunk(text)

    def closing(self, finished: events.Finished) -> bytes:
        """Return the chunk with the finish reason and the usage."""
        return self._chunk("", finished)

    def whole(self, text: str, finished: events.Finished) -> bytes:
        """Return the whole continuation."""
        return self._chunk(text, finished)

    def _chunk(self, text: str, finished: events.Finished | None = None) -> bytes:
        reason = finished.reason if finished else None
        chunk = schema.TextCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[schema.TextChoice(text=text, finish_reason=reason)],
            usage=_usage(finished.usage) if finished else msgspec.UNSET,
        )
        return _encode(chunk)


def _usage(usage: events.Usage) -> schema.Usage:
    return schema.Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        prompt_tokens_details=schema.PromptTokensDetails(cached_tokens=usage.cached_tokens),
        lane=usage.lane,
    )
