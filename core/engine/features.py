"""What a request can ask for, and how the engine runs it: in the batch, alone, or not at all.

`placement` is what `Engine.submit` decides by, and what the table of `GET /v1/capabilities` is made
from. Knows nothing of a protocol. Imports no arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from core.engine.request import ChatPrompt, Ending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.engine.info import ModelInfo
    from core.engine.request import GenerationRequest, SamplingParams, Thinking, ToolUse

PlacementLane = Literal["batched", "serial", "refused"]
BatchMode = Literal["off", "serial", "batch"]


class Feature(StrEnum):
    """Something that a request asks for beyond a plain answer."""

    CHAT = "chat"
    TEXT = "text"
    FILTERS = "filters"
    XTC = "xtc"
    PENALTIES = "penalties"
    LOGIT_BIAS = "logit_bias"
    TONE_CURVE = "tone_curve"
    SEED = "seed"
    STOP = "stop"
    CHOICES = "choices"
    LOGPROBS = "logprobs"
    STRUCTURED_OUTPUT = "structured_output"
    TOOLS = "tools"
    FORCED_TOOLS = "forced_tools"
    THINKING = "thinking"
    THINKING_BUDGET = "thinking_budget"
    ADAPTER = "adapter"
    MEDIA = "media"


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What decides about a placement on the model's side."""

    chat: bool
    """Whether there is a chat template. A template that knows nothing of tools is no obstacle (they
    are told in the system message), nor is a model that has no reasoning to switch or limit."""
    serial: str | None = None
    """Why requests do not run together on this model, one sentence; None: they do."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """How a request runs."""

    lane: PlacementLane
    """`batched`: beside others; `serial`: one after the other; `refused`: not at all."""
    reason: str | None = None
    """Why not in the batch, one sentence; None: it is."""


_NEEDS_TEMPLATE = frozenset(
    (
        Feature.CHAT,
        Feature.TOOLS,
        Feature.FORCED_TOOLS,
        Feature.THINKING,
        Feature.THINKING_BUDGET,
    )
)
_UNSUPPORTED = {
    Feature.ADAPTER: "A request cannot choose an adapter yet; `serve --adapter` does.",
    Feature.MEDIA: "Images, audio and video are not supported yet.",
}


def facts_of(info: ModelInfo) -> ModelFacts:
    """Return what decides about placements on this model."""
    return ModelFacts(chat=info.has_chat_template, serial=info.batching.serial_reason)


def batch_mode(info: ModelInfo, *, batch: int) -> BatchMode:
    """Return how requests run on this model.

    Args:
        info: the model.
        batch: rows that may run together; 1 is serial.
    """
    if batch == 1:
        return "off"
    return "batch" if info.batching.lane == "batched" else "serial"


def placement(features: frozenset[Feature], *, batch: int, facts: ModelFacts) -> Placement:
    """Decide how a request with these features runs.

    Args:
        features: all that it asks for.
        batch: rows that may run together; 1 is serial.
        facts: of the model.
    """
    if reason := _refusal(features, facts):
        return Placement(lane="refused", reason=reason)
    if batch == 1:
        return Placement(lane="serial", reason="The server runs one request at a time (--batch 1).")
    if facts.serial is not None:
        return Placement(lane="serial", reason=facts.serial)
    return Placement(lane="batched")


def features_of(request: GenerationRequest) -> frozenset[Feature]:
    """Return what a request asks for. What switches something off asks for nothing."""
    return frozenset((*_of_answer(request), *_of_sampling(request.sampling)))


def _refusal(features: frozenset[Feature], facts: ModelFacts) -> str | None:
    for feature, reason in _UNSUPPORTED.items():
        if feature in features:
            return reason
    needy = features & _NEEDS_TEMPLATE
    if Feature.TEXT in features and needy:
        return "A text prompt is continued as it stands: it has no chat template."
    if needy and not facts.chat:
        return "The model has no chat template; /v1/completions continues a text."
    return None


def _of_answer(request: GenerationRequest) -> Iterator[Feature]:
    if isinstance(request.prompt, ChatPrompt):
        yield Feature.CHAT
        yield from _of_tools(request.tools)
        yield from _of_thinking(request.thinking)
    else:
        yield Feature.TEXT
    if request.stop or request.ending != Ending():
        yield Feature.STOP
    if request.choices > 1:
        yield Feature.CHOICES
    if request.logprobs is not None:
        yield Feature.LOGPROBS
    if request.grammar:
        yield Feature.STRUCTURED_OUTPUT


def _of_tools(use: ToolUse) -> Iterator[Feature]:
    if use.tools and use.mode != "none":
        yield Feature.TOOLS
    if use.mode in ("required", "named"):
        yield Feature.FORCED_TOOLS


def _of_thinking(thinking: Thinking) -> Iterator[Feature]:
    wanted = thinking.enabled
    if wanted is None:
        wanted = thinking.effort not in (None, "none")
    if wanted:
        yield Feature.THINKING
    if thinking.budget is not None and thinking.enabled is not False:
        yield Feature.THINKING_BUDGET


def _of_sampling(sampling: SamplingParams) -> Iterator[Feature]:
    if sampling.top_p or sampling.top_k or sampling.min_p:
        yield Feature.FILTERS
    if sampling.xtc_probability:
        yield Feature.XTC
    if (
        sampling.repetition_penalty not in (None, 0, 1)
        or sampling.presence_penalty
        or sampling.frequency_penalty
    ):
        yield Feature.PENALTIES
    if sampling.logit_bias:
        yield Feature.LOGIT_BIAS
    if sampling.tone_curve and sampling.tone_curve.enabled:
        yield Feature.TONE_CURVE
    if sampling.seed is not None:
        yield Feature.SEED
