"""The table of `GET /v1/capabilities`: what can be asked for, alone and together, and how it runs.

Made from what decides, `core.engine.features.placement`; knows the fields of this protocol.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from core.engine.features import Feature, ModelFacts, PlacementLane, placement

_FIELDS: dict[Feature, tuple[str, ...]] = {
    Feature.CHAT: ("messages",),
    Feature.TEXT: ("prompt", "echo", "suffix"),
    Feature.FILTERS: ("top_p", "top_k", "min_p"),
    Feature.XTC: ("xtc_probability", "xtc_threshold"),
    Feature.PENALTIES: ("repetition_penalty", "presence_penalty", "frequency_penalty"),
    Feature.LOGIT_BIAS: ("logit_bias",),
    Feature.TONE_CURVE: ("hlg",),
    Feature.SEED: ("seed",),
    Feature.STOP: ("stop", "stop_token_ids", "min_tokens", "ignore_eos"),
    Feature.CHOICES: ("n",),
    Feature.LOGPROBS: ("logprobs", "top_logprobs"),
    Feature.STRUCTURED_OUTPUT: (
        "response_format",
        "guided_grammar",
        "guided_regex",
        "guided_choice",
        "structured_outputs",
        "guided_json",
        "json_schema",
        "grammar",
        "format",
    ),
    Feature.TOOLS: ("tools", "functions"),
    Feature.FORCED_TOOLS: ("tool_choice", "function_call"),
    Feature.THINKING: (
        "reasoning_effort",
        "reasoning.effort",
        "chat_template_kwargs.enable_thinking",
    ),
    Feature.THINKING_BUDGET: ("thinking_budget",),
    Feature.ADAPTER: ("adapter",),
    Feature.MEDIA: ("messages",),
}


class Placed(Struct, kw_only=True):
    """How something runs."""

    lane: PlacementLane
    reason: Annotated[str | UnsetType, Meta(description="why it is not batched")] = UNSET


class FeatureRow(Placed, kw_only=True):
    """A feature: how it runs alone, and together with each other one."""

    feature: str
    fields: Annotated[list[str], Meta(description="the request fields that ask for it")]
    together: Annotated[dict[str, Placed], Meta(description="by the other feature")] = field(
        name="with"
    )


class CapabilityTable(Struct, kw_only=True):
    """What can be asked of the served model, and how it runs."""

    object: Literal["capabilities"] = "capabilities"
    model: str
    batch: Annotated[int, Meta(description="rows that may run together; 1 is serial")]
    features: list[FeatureRow]


def capability_table(model: str, *, batch: int, facts: ModelFacts) -> CapabilityTable:
    """Return the table.

    Args:
        model: the served one.
        batch: rows that may run together.
        facts: of the model.
    """

    def placed(*features: Feature) -> Placed:
        found = placement(frozenset(features), batch=batch, facts=facts)
        return Placed(lane=found.lane, reason=found.reason or UNSET)

    rows = []
    for feature in Feature:
        alone = placed(feature)
        together = {other.value: placed(feature, other) for other in Feature if other != feature}
        rows.append(
            FeatureRow(
                feature=feature.value,
                fields=list(_FIELDS[feature]),
                lane=alone.lane,
                reason=alone.reason,
                together=together,
            )
        )
    return CapabilityTable(model=model, batch=batch, features=rows)


def supported(feature: Feature, *, batch: int, facts: ModelFacts) -> bool:
    """Say whether a feature can be asked for at all."""
    return placement(frozenset((feature,)), batch=batch, facts=facts).lane != "refused"
