"""Every family's markup, however it is cut, and wherever it ends."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from tests.core.engine.tools.folding import FAMILIES, Folded, is_json, parse
from tests.core.engine.tools.samples import SAMPLES, Sample


def expect(sample: Sample, folded: Folded) -> None:
    assert folded.names == [name for name, _ in sample.calls]
    for arguments, (_, expected) in zip(folded.arguments, sample.calls, strict=True):
        assert (arguments if isinstance(expected, str) else json.loads(arguments)) == expected
    assert folded.content == sample.content
    assert folded.reasoning == sample.reasoning
    assert folded.repairs == set(sample.repairs)
    assert folded.complete == [True for _ in sample.calls]
    assert len(set(folded.ids)) == len(sample.calls)


def test_every_family_has_samples_with_calls_and_more_than_one_of_them() -> None:
    assert {s.family for s in SAMPLES if s.calls} == set(FAMILIES)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_what_comes_of_it(sample: Sample) -> None:
    expect(sample, parse(sample.family, sample.text))


@pytest.mark.parametrize("limit", [False, True], ids=["ended", "cut"])
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_cutting_changes_nothing(sample: Sample, limit: bool) -> None:
    whole = parse(sample.family, sample.text, cut=limit)
    assert parse(sample.family, list(sample.text), cut=limit) == whole
    for at in range(len(sample.text)):
        parts = [sample.text[:at], sample.text[at:]]
        assert parse(sample.family, parts, cut=limit) == whole
    draw = random.Random(sample.text)
    for _ in range(10):
        cuts = sorted(draw.choices(range(len(sample.text) + 1), k=5))
        bounds = [0, *cuts, len(sample.text)]
        parts = [sample.text[a:b] for a, b in itertools.pairwise(bounds)]
        assert parse(sample.family, parts, cut=limit) == whole


@pytest.mark.parametrize("limit", [False, True], ids=["ended", "cut"])
@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_an_answer_may_end_anywhere(sample: Sample, limit: bool) -> None:
    for end in range(len(sample.text)):
        text = sample.text[:end]
        folded = parse(sample.family, text, cut=limit)
        assert folded == parse(sample.family, list(text), cut=limit)
        assert limit or all(folded.complete)
        if not folded.names and sample.family != "harmony":
            assert folded.content == text


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.calls], ids=str)
def test_nothing_is_closed_at_the_limit(sample: Sample) -> None:
    """A call that was cut has arguments that no JSON parser takes, or all that the model wrote."""
    for end in range(len(sample.text)):
        text = sample.text[:end]
        folded = parse(sample.family, text, cut=True)
        for arguments, complete in zip(folded.arguments, folded.complete, strict=True):
            assert complete or not is_json(arguments) or arguments in text
        assert not folded.cut or not folded.complete or not folded.complete[-1] or folded.content


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
