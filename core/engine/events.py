"""What comes back from the engine while it answers. Imports no arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length", "tool_calls"]
Lane = Literal["serial", "batched"]


@dataclass(frozen=True, kw_only=True)
class TextDelta:
    """More text of the answer."""

    text: str
    """Never empty, never half a character, never part of a stop text."""


@dataclass(frozen=True, kw_only=True)
class ReasoningDelta:
    """More text of the reasoning channel."""

    text: str
    """Never empty, never half a character, never part of the channel's markup."""


@dataclass(frozen=True, kw_only=True)
class ToolCallDelta:
    """The beginning of a call, or more of its arguments."""

    index: int
    """Which call of the answer, from 0; they come one after the other."""
    id: str | None = None
    """`call_…`, with the first delta of a call; None afterwards."""
    name: str | None = None
    """The function, with the first delta of a call; None afterwards."""
    arguments: str = ""
    """More of the arguments. The pieces of a call together are one JSON object if the call is
    complete; what is damaged, or cut, stands as the model wrote it."""


@dataclass(frozen=True, kw_only=True)
class CallEnd:
    """The end of a call that a parser has found. It stays within the output pipeline."""

    complete: bool
    """Whether the call ended by itself; else the answer was cut within it."""
    repairs: tuple[str, ...] = ()
    """The kinds of repair that its markup needed (`tools/repairs.py`)."""


@dataclass(frozen=True, kw_only=True)
class TokenLogprob:
    """A token and its log-probability."""

    token: int
    """Its id."""
    raw: bytes
    """The bytes that it stands for, which may be part of a character; empty: an unused id."""
    logprob: float
    """In nats, of the logits after penalties and biases, before temperature and filters."""

    @property
    def text(self) -> str:
        """Its bytes as text, with U+FFFD for what is not a whole character."""
        return self.raw.decode("utf-8", "replace")


@dataclass(frozen=True, kw_only=True)
class Position:
    """One generated token with its likeliest alternatives; comes before the text it brings."""

    chosen: TokenLogprob
    """What was generated."""
    top: tuple[TokenLogprob, ...]
    """The likeliest ones, descending; as many as were asked for."""
    offset: int = 0
    """Characters of the answer before this token, markup and stop texts included."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """Something that took time, in seconds of `time.perf_counter`."""

    began: float
    """When."""
    seconds: float
    """How long."""
    tokens: int | None = None
    """Prompt tokens that were computed; None: that is not what it did."""


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How a step's time is divided, by the bytes that each part reads. They add up to 1."""

    forward: float
    """Of the layers."""
    head: float
    """Of the matrix that makes logits of hidden states."""
    sample: float
    """Of choosing a token by its logits."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """When an answer passed the engine's stations, in seconds of `time.perf_counter`."""

    queued: float
    """When it began to wait for a row."""
    admitted: float
    """When it got one."""
    first_token: float
    """When its first token was there."""
    lookup_seconds: float | None = None
    """What looking its prompt up in the prompt cache took, and taking it over; None: unknown."""
    placement: Span | None = None
    """Deciding how it runs; None: unknown."""
    setup: Span | None = None
    """Putting it into the batch; None: unknown."""
    chunks: tuple[Span, ...] = ()
    """The steps that computed its prompt, each beside a token of every running answer."""
    kept: tuple[Span, ...] = ()
    """Keeping the KV of its prompt for others."""
    prompt_done: float | None = None
    """When the step began that computes its first token; None: unknown."""
    shares: Shares | None = None
    """How the time of that step is divided; None: unknown."""


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
    reasoning_tokens: int = 0
    """Generated tokens of the reasoning channel."""
    repairs: tuple[str, ...] = ()
    """The kinds of repair that the markup of its calls needed, sorted (`tools/repairs.py`)."""
    timing: Timing | None = None
    """Its way through the engine; None: not known."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The last event of an answer."""

    reason: FinishReason
    """`stop`: EOS, a stop text or a complete grammar; `tool_calls`: it called tools, and every call
    ended by itself; `length`: `max_tokens` or the context ran out."""
    usage: Usage
    """What it took."""
    logprobs: tuple[Position, ...] | None = None
    """All positions again, reasoning and calls included; None: not requested."""


Event = TextDelta | ReasoningDelta | ToolCallDelta | Position | Finished
