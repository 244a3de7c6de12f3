"""What a request asks for, and where it runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from core.engine.features import Feature, ModelFacts, features_of, placement
from core.engine.request import (
    ChatPrompt,
    GenerationRequest,
    GrammarSpec,
    SamplingParams,
    TextPrompt,
    Thinking,
    ToneCurve,
    Tool,
    ToolUse,
)

ABLE = ModelFacts(chat=True)
CHAT = ChatPrompt(messages=({"role": "user", "content": "hi"},))
TOOL = Tool(name="f")
REFUSED = {Feature.ADAPTER, Feature.MEDIA}


def _asked(**fields: Any) -> set[Feature]:
    return set(features_of(GenerationRequest(prompt=CHAT, **fields))) - {Feature.CHAT}


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, set()),
        ({"stop": ("a",)}, {Feature.STOP}),
        ({"choices": 2}, {Feature.CHOICES}),
        ({"logprobs": 0}, {Feature.LOGPROBS}),
        ({"grammar": GrammarSpec(kind="json")}, {Feature.STRUCTURED_OUTPUT}),
        ({"tools": ToolUse(tools=(TOOL,))}, {Feature.TOOLS}),
        ({"tools": ToolUse(tools=(TOOL,), mode="none")}, set()),
        (
            {"tools": ToolUse(tools=(TOOL,), mode="required")},
            {Feature.TOOLS, Feature.FORCED_TOOLS},
        ),
        ({"thinking": Thinking(enabled=True)}, {Feature.THINKING}),
        ({"thinking": Thinking(effort="low")}, {Feature.THINKING}),
        ({"thinking": Thinking(enabled=False, effort="low", budget=9)}, set()),
        ({"thinking": Thinking(effort="none")}, set()),
        ({"thinking": Thinking(budget=0)}, {Feature.THINKING_BUDGET}),
    ],
)
def test_what_an_answer_asks_for(fields: dict[str, Any], wanted: set[Feature]) -> None:
    assert _asked(**fields) == wanted


@pytest.mark.parametrize(
    ("sampling", "wanted"),
    [
        (SamplingParams(temperature=1.0), set()),
        (SamplingParams(top_p=0.0, top_k=0, min_p=0.0, repetition_penalty=1.0), set()),
        (SamplingParams(min_p=0.1), {Feature.FILTERS}),
        (SamplingParams(xtc_probability=0.5, xtc_threshold=0.1), {Feature.XTC}),
        (SamplingParams(xtc_threshold=0.1), set()),
        (SamplingParams(repetition_penalty=1.1), {Feature.PENALTIES}),
        (SamplingParams(presence_penalty=-1.0), {Feature.PENALTIES}),
        (SamplingParams(logit_bias=()), set()),
        (SamplingParams(logit_bias=((5, 1.0),)), {Feature.LOGIT_BIAS}),
        (SamplingParams(tone_curve=ToneCurve(width=4.0)), set()),
        (SamplingParams(tone_curve=ToneCurve(enabled=True)), {Feature.TONE_CURVE}),
        (SamplingParams(seed=0), {Feature.SEED}),
    ],
)
def test_what_a_sampler_asks_for(sampling: SamplingParams, wanted: set[Feature]) -> None:
    assert _asked(sampling=sampling) == wanted


def test_a_text_prompt_asks_for_nothing_that_needs_a_template() -> None:
    request = GenerationRequest(
        prompt=TextPrompt(text="a"), tools=ToolUse(tools=(TOOL,)), thinking=Thinking(budget=1)
    )
    assert features_of(request) == {Feature.TEXT}


def test_whatever_is_supported_shares_the_batch() -> None:
    able = frozenset(Feature) - REFUSED - {Feature.TEXT}
    assert placement(able, batch=8, facts=ABLE).lane == "batched"
    alone = placement(able, batch=1, facts=ABLE)
    assert alone.lane == "serial"
    assert "--batch 1" in (alone.reason or "")


def test_a_refusal_has_a_reason_in_any_company() -> None:
    for pair in combinations(Feature, 2):
        for batch in (1, 8):
            placed = placement(frozenset(pair), batch=batch, facts=ABLE)
            assert (placed.lane == "refused") is _must_be_refused(set(pair))
            assert (placed.reason is None) is (placed.lane == "batched")


def _must_be_refused(pair: set[Feature]) -> bool:
    needy = {
        Feature.CHAT,
        Feature.TOOLS,
        Feature.FORCED_TOOLS,
        Feature.THINKING,
        Feature.THINKING_BUDGET,
    }
    return bool(pair & REFUSED) or (Feature.TEXT in pair and bool(pair & needy))


@pytest.mark.parametrize(
    ("facts", "feature"),
    [
        (replace(ABLE, chat=False), Feature.CHAT),
        (replace(ABLE, chat=False), Feature.TOOLS),
        (replace(ABLE, chat=False), Feature.THINKING_BUDGET),
    ],
)
def test_what_a_model_cannot_do_is_refused(facts: ModelFacts, feature: Feature) -> None:
    assert placement(frozenset((feature,)), batch=8, facts=ABLE).lane == "batched"
    assert placement(frozenset((feature,)), batch=8, facts=facts).lane == "refused"
    assert placement(frozenset((Feature.TEXT,)), batch=8, facts=facts).lane == "batched"
