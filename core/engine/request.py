"""What a caller asks of the engine, in no protocol's words. Imports no arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How to choose the next token. None: the server's default, then the model's, then ours."""

    temperature: float | None = None
    """Divides the logits; 0 takes the likeliest token. At least 0."""
    top_p: float | None = None
    """Keep the likeliest tokens that hold this much probability; 0 and 1 keep all."""
    top_k: int | None = None
    """Keep this many of the likeliest tokens; 0 keeps all."""
    min_p: float | None = None
    """Keep tokens at least this likely relative to the likeliest, 0 to 1; 0 keeps all."""
    seed: int | None = None
    """Makes the row reproducible; None draws a fresh one. Any 64-bit integer."""


@dataclass(frozen=True, kw_only=True)
class ChatPrompt:
    """A conversation that the model's chat template turns into a prompt."""

    messages: tuple[Mapping[str, Any], ...]
    """Each with `role` (system, user, assistant, tool) and `content` (text or None)."""
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Passed on to the chat template."""


@dataclass(frozen=True, kw_only=True)
class TextPrompt:
    """A text that the model continues as it stands."""

    text: str
    """Tokenized with the tokenizer's own special tokens. Not empty."""


@dataclass(frozen=True, kw_only=True)
class GenerationRequest:
    """One answer to generate."""

    prompt: ChatPrompt | TextPrompt
    """Where the answer starts from."""
    sampling: SamplingParams = field(default_factory=SamplingParams)
    """How tokens are chosen."""
    max_tokens: int | None = None
    """Most tokens to generate, EOS counted; None: until EOS or the context is full."""
    stop: tuple[str, ...] = ()
    """Texts that end the answer; they are never part of it. None of them is empty."""
