"""Every family's markup, however it is cut, and wherever it ends."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from tests.core.engine.tools.folding import FAMILIES, Folded, parse
from tests.core.engine.tools.samples import SAMPLES, Sample


def expect(sample: Sample, folded: Folded) -> None:
    calls = tuple(
        (name, json.loads(arguments))
        for name, arguments in zip(folded.names, folded.arguments, strict=True)
    )
    assert calls == sample.calls
    assert folded.content == sample.content
    assert folded.reasoning == sample.reasoning
    assert len(set(folded.ids)) == len(sample.calls)


def test_every_family_has_samples_with_calls_and_more_than_one_of_them() -> None:
    assert {s.family for s in SAMPLES if s.calls} == set(FAMILIES)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_what_comes_of_it(sample: Sample) -> None:
    expect(sample, parse(sample.family, sample.text))


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_cutting_changes_nothing(sample: Sample) -> None:
    whole = parse(sample.family, sample.text)
    assert parse(sample.family, list(sample.text)) == whole
    for at in range(len(sample.text)):
        assert parse(sample.family, [sample.text[:at], sample.text[at:]]) == whole
    draw = random.Random(sample.text)
    for _ in range(10):
        cuts = sorted(draw.choices(range(len(sample.text) + 1), k=5))
        bounds = [0, *cuts, len(sample.text)]
        parts = [sample.text[a:b] for a, b in itertools.pairwise(bounds)]
        assert parse(sample.family, parts) == whole


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_an_answer_may_end_anywhere(sample: Sample) -> None:
    for end in range(len(sample.text)):
        folded = parse(sample.family, sample.text[:end])
        assert folded == parse(sample.family, list(sample.text[:end]))
        for arguments in folded.arguments:
            assert isinstance(json.loads(arguments), dict)
        if not folded.names and sample.family != "harmony":
            assert folded.content == sample.text[:end]


# Harmony's marks are tokens, which are never cut.
_CUT = [sample for sample in SAMPLES if sample.calls and sample.family != "harmony"]


@pytest.mark.parametrize("sample", _CUT, ids=str)
def test_an_answer_that_is_cut_in_the_end_of_a_call_shows_none_of_it(sample: Sample) -> None:
    whole = parse(sample.family, sample.text)
    for end in range(len(sample.text) - 1, 0, -1):
        answer = parse(sample.family, sample.text[:end])
        if answer.arguments != whole.arguments:
            break
        assert whole.content.startswith(answer.content)
