"""What a caller asks of the engine, in no protocol's words. Imports no arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

GrammarKind = Literal["json", "json_schema", "ebnf", "regex", "choice"]
ToolMode = Literal["auto", "none", "required", "named"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, kw_only=True)
class ToneCurve:
    """Hybrid-log-gamma sampling: a plateau among the likeliest tokens. None: the server's value."""

    enabled: bool | None = None
    """Whether it is applied."""
    width: float | None = None
    """Width of the plateau, in nats."""
    shoulder: float | None = None
    """Width of the shoulder above it, in nats."""
    toe: float | None = None
    """Width of the toe below it, in nats."""
    pivot_offset: float | None = None
    """How far below the likeliest token the pivot lies, in nats."""


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
    xtc_probability: float | None = None
    """Chance that a step drops every token above `xtc_threshold` but the least likely; 0: off."""
    xtc_threshold: float | None = None
    """Probability above which XTC drops, 0 to 0.5."""
    repetition_penalty: float | None = None
    """Divides positive and multiplies negative logits of recent tokens; 0 and 1 are off."""
    repetition_context_size: int | None = None
    """Recent tokens, of prompt and answer, that it looks at; 0: all."""
    presence_penalty: float | None = None
    """Subtracted from the logits of recent tokens, once each; 0 is off."""
    presence_context_size: int | None = None
    """Recent tokens that it looks at; 0: all."""
    frequency_penalty: float | None = None
    """Subtracted from the logits of recent tokens for every occurrence; 0 is off."""
    frequency_context_size: int | None = None
    """Recent tokens that it looks at; 0: all."""
    logit_bias: tuple[tuple[int, float], ...] | None = None
    """Pairs of token id and what is added to its logit, ascending by id; empty is off."""
    tone_curve: ToneCurve | None = None
    """Tone-curve sampling (`hlg`); its fields are settled one by one."""
    seed: int | None = None
    """Makes the row reproducible; None draws a fresh one. Any 64-bit integer."""


@dataclass(frozen=True, kw_only=True)
class ChatPrompt:
    """A conversation that the model's chat template turns into a prompt."""

    messages: tuple[Mapping[str, Any], ...]
    """Each with `role` (system, user, assistant, tool) and `content` (text or None)."""
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Passed on to the chat template."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """What the template tells the model of its tools, in OpenAI's form; empty: nothing."""


@dataclass(frozen=True, kw_only=True)
class TextPrompt:
    """A text that the model continues as it stands."""

    text: str
    """Tokenized with the tokenizer's own special tokens. Not empty."""
    suffix: str = ""
    """Text after the gap that the model fills, for models with fill-in-the-middle tokens."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A function that the model may call."""

    name: str
    """Not empty."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema of its arguments; empty: any object."""
    field: str = field(default="", compare=False)
    """Where in the request `parameters` came from, for errors; empty: that is not known."""


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """Which functions an answer may or must call."""

    tools: tuple[Tool, ...] = ()
    """Empty: none, and the answer is not searched for calls."""
    mode: ToolMode = "auto"
    """`auto`: may call; `none`: must not; `required`: calls at least one; `named`: calls `name`."""
    name: str | None = None
    """The function to call when `mode` is `named`; among `tools`."""
    parallel: bool = True
    """Whether one answer may hold several calls."""


@dataclass(frozen=True, kw_only=True)
class GrammarSpec:
    """The form that an answer must have."""

    kind: GrammarKind
    """`json`: any JSON value."""
    source: Any = None
    """`json_schema`: the schema; `ebnf`, `regex`: a text; `choice`: a tuple of texts."""
    any_whitespace: bool = True
    """Whether JSON may have white space between its tokens."""
    strict: bool = True
    """Whether JSON may hold only the properties and items that its schema names, where the schema
    does not say."""
    field: str = field(default="", compare=False)
    """Where in the request `source` came from, for errors; empty: that is not known."""


@dataclass(frozen=True, kw_only=True)
class Thinking:
    """How an answer reasons. None: what server, then model, then template say."""

    enabled: bool | None = None
    """Whether the reasoning channel is on."""
    effort: Effort | None = None
    """How much to reason, for templates that can be told; switches the channel on or off where
    `enabled` does not."""
    budget: int | None = None
    """Most tokens of reasoning, after which the channel is closed; at least 0."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Which tokens end an answer, and when."""

    min_tokens: int = 0
    """Tokens to generate before EOS, `stop_tokens` or a stop text can end the answer."""
    ignore_eos: bool = False
    """Whether EOS is never generated unless a grammar allows nothing else."""
    stop_tokens: frozenset[int] = frozenset()
    """Token ids that end the answer, as EOS does; their text is not part of it."""


@dataclass(frozen=True, kw_only=True)
class GenerationRequest:
    """One answer to generate, or several to the same prompt."""

    prompt: ChatPrompt | TextPrompt
    """Where the answer starts from."""
    sampling: SamplingParams = field(default_factory=SamplingParams)
    """How tokens are chosen."""
    max_tokens: int | None = None
    """Most tokens to generate, EOS counted; None: until EOS or the context is full."""
    stop: tuple[str, ...] = ()
    """Texts that end the answer; they are never part of it. None of them is empty."""
    ending: Ending = field(default_factory=Ending)
    """Which tokens end the answer, beside EOS, and when."""
    choices: int = 1
    """How many answers, each with a seed of its own; they share their prefill. 1 to 8."""
    logprobs: int | None = None
    """None: no log-probabilities; 0: the chosen tokens'; n: the n likeliest ones' as well."""
    grammar: GrammarSpec | None = None
    """What the text of the answer must match; reasoning before it is free."""
    tools: ToolUse = field(default_factory=ToolUse)
    """What it may call. Ignored for a text prompt."""
    thinking: Thinking = field(default_factory=Thinking)
    """How it reasons. Ignored for a text prompt."""
