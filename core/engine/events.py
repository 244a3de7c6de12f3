"""What comes back from the engine while it answers. Imports no arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length"]
Lane = Literal["serial", "batched"]


@dataclass(frozen=True, kw_only=True)
class TextDelta:
    """More text of the answer."""

    text: str
    """Never empty, never half a character, never part of a stop text."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What an answer took."""

    prompt_tokens: int
    """Tokens of the prompt."""
    completion_tokens: int
    """Tokens generated, EOS included."""
    cached_tokens: int
    """Prompt tokens whose KV came from the prompt cache."""
    lane: Lane
    """How the row ran."""
    prefill_seconds: float
    """From the row's admission to its first token."""
    decode_seconds: float
    """From the first token to the last."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The last event of an answer."""

    reason: FinishReason
    """`stop`: EOS or a stop text; `length`: `max_tokens` or the context ran out."""
    usage: Usage
    """What it took."""


Event = TextDelta | Finished
