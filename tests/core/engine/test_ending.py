"""When an answer ends: EOS forbidden for a while or for good, and further tokens that end it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.engine.ending import EndingConstraint, with_ending
from core.engine.events import Finished
from core.engine.request import Ending, GrammarSpec
from tests.core.engine.conftest import OpenEngine
from tests.core.engine.fakes import AllowOnly
from tests.core.engine.test_engine import answer
from tests.tiny import EOS

EOS_IDS = frozenset((EOS,))


def allowed(constraint: Any, among: set[int]) -> set[int]:
    """Return which of some tokens may come."""
    mask = np.full((1, 9), -1, np.int32)
    before = mask.copy()
    if not constraint.fill(mask, 0):
        assert (mask == before).all()
    bits = mask[0].view(np.uint32)
    return {token for token in among if bits[token // 32] >> np.uint32(token % 32) & 1}


def ends_with(tokens: frozenset[int], **fields: Any) -> EndingConstraint:
    return EndingConstraint(None, Ending(stop_tokens=tokens, **fields), eos_ids=EOS_IDS)


def test_a_request_that_says_nothing_of_the_end_is_not_constrained() -> None:
    assert with_ending(None, Ending(), eos_ids=EOS_IDS) is None
    inner = AllowOnly({1})
    assert with_ending(inner, Ending(), eos_ids=EOS_IDS) is inner


def test_the_first_tokens_cannot_end_the_answer() -> None:
    constraint = ends_with(frozenset((7,)), min_tokens=2)
    for _ in range(2):
        assert allowed(constraint, {7, 8, EOS}) == {8}
        constraint.accept(8)
    assert allowed(constraint, {7, 8, EOS}) == {7, 8, EOS}
    assert not constraint.complete
    constraint.accept(7)
    assert constraint.complete


def test_eos_can_be_forbidden_for_good() -> None:
    constraint = ends_with(frozenset(), ignore_eos=True)
    for _ in range(50):
        constraint.accept(8)
    assert allowed(constraint, {8, EOS}) == {8}


def test_a_form_that_can_only_end_ends() -> None:
    inner = AllowOnly({EOS})
    constraint = EndingConstraint(inner, Ending(ignore_eos=True), eos_ids=EOS_IDS)
    assert allowed(constraint, {8, EOS}) == {EOS}
    done = EndingConstraint(AllowOnly({8}, length=1), Ending(min_tokens=9), eos_ids=EOS_IDS)
    done.accept(8)
    assert done.complete


def test_a_row_that_starts_again_counts_anew() -> None:
    inner = AllowOnly(None)
    constraint = EndingConstraint(inner, Ending(min_tokens=3), eos_ids=EOS_IDS)
    for _ in range(5):
        constraint.accept(1)
    constraint.restart([1, 1])
    assert inner.heard == [1, 1]
    assert EOS not in allowed(constraint, {EOS})
    constraint.accept(1)
    assert EOS in allowed(constraint, {EOS})


def test_ids_beyond_the_mask_do_not_matter() -> None:
    constraint = ends_with(frozenset((10**9,)), min_tokens=1)
    assert allowed(constraint, {1}) == {1}


def generated(end: Finished) -> list[int]:
    return [position.chosen.token for position in end.logprobs or ()]


@pytest.mark.parametrize("batch", [1, 4])
def test_a_stop_token_ends_an_answer_and_is_not_in_it(open_tiny: OpenEngine, batch: int) -> None:
    engine = open_tiny(batch=batch)
    free, end = answer(engine, "stop tokens", max_tokens=12, logprobs=0)
    tokens = generated(end)
    at = next(n for n, token in enumerate(tokens) if n > 1 and token not in tokens[:n])
    text, end = answer(
        engine,
        "stop tokens",
        max_tokens=12,
        logprobs=0,
        ending=Ending(stop_tokens=frozenset((tokens[at],))),
    )
    assert generated(end) == tokens[: at + 1]
    assert end.reason == "stop"
    whole = bytes(token for token in tokens[:at] if token < EOS).decode("utf-8", "replace")
    assert text == whole
    assert free.startswith(text.rstrip("\ufffd"))


@pytest.mark.parametrize("batch", [1, 4])
def test_min_tokens_hold_stop_tokens_and_stop_texts_back(open_tiny: OpenEngine, batch: int) -> None:
    engine = open_tiny(batch=batch)
    every = frozenset(range(200))
    _, end = answer(
        engine, "abc", max_tokens=9, ending=Ending(stop_tokens=every, min_tokens=4), logprobs=0
    )
    assert all(token not in every for token in generated(end)[:4])
    letters = tuple(chr(code) for code in range(32, 127))
    short, _ = answer(engine, "abcdef", max_tokens=30, stop=letters)
    long, end = answer(engine, "abcdef", max_tokens=30, stop=letters, ending=Ending(min_tokens=20))
    assert end.usage.completion_tokens >= 20
    assert long.startswith(short)


def test_a_form_is_complete_before_min_tokens(open_tiny: OpenEngine) -> None:
    text, end = answer(
        open_tiny(),
        "abc",
        max_tokens=30,
        grammar=GrammarSpec(kind="choice", source=("yes", "no")),
        ending=Ending(min_tokens=20, ignore_eos=True),
    )
    assert text in ("yes", "no")
    assert end.reason == "stop"


def test_min_tokens_make_a_form_longer(open_tiny: OpenEngine) -> None:
    form = GrammarSpec(kind="regex", source="[a-z]{0,20}")
    text, _ = answer(open_tiny(), "abc", max_tokens=40, grammar=form, ending=Ending(min_tokens=12))
    assert 12 <= len(text) <= 20
