"""What is measured, in which order, and what is cut."""

from __future__ import annotations

from typing import Any

import pytest

from core.bench.plan import Limits, Wishes, make_plan, make_wishes, parse_sizes
from core.errors import UsageProblem

ROOMY = Limits(context=8192, batch=8, prompt_cache=True)


def limits(**changes: Any) -> Limits:
    return Limits(**({"context": 8192, "batch": 8, "prompt_cache": True} | changes))


def test_the_defaults_are_measured_whole_where_there_is_room() -> None:
    plan = make_plan(Wishes(), ROOMY)
    assert (plan.prompts, plan.rows) == ((128, 512, 2048), (1, 2, 4, 8))
    assert (plan.tokens, plan.repeats, plan.warm, plan.notes) == (32, 5, True, ())


def test_every_round_goes_over_all_sizes_and_every_second_one_backwards() -> None:
    plan = make_plan(Wishes(prompts=(64, 16), rows=(1, 2), repeats=3), ROOMY)
    order = [(step.kind, step.size) for step in plan.steps]
    forth = [("prompt", 16), ("prompt", 64), ("rows", 1), ("rows", 2)]
    assert order == forth + forth[::-1] + forth


def test_sizes_beyond_the_engine_are_cut_and_noted_once() -> None:
    plan = make_plan(Wishes(rows=(8, 1, 16, 32)), limits(context=513))
    assert plan.prompts == (128, 512)
    assert plan.rows == (1, 8)
    assert plan.notes == (
        "The context allows 512 tokens of prompt: measured instead of 2048.",
        "--batch allows 8 rows: measured instead of 16, 32.",
    )


def test_the_batch_cap_itself_is_measured() -> None:
    assert make_plan(Wishes(), limits(batch=3)).rows == (1, 2, 3)


def test_a_model_that_does_not_batch_is_measured_with_one_row() -> None:
    plan = make_plan(Wishes(), limits(serial="It fails in a batch."))
    assert plan.rows == (1,)
    assert plan.notes == (
        "The model allows 1 rows: measured instead of 2, 4, 8.",
        "It fails in a batch.",
    )


def test_a_small_context_holds_prompt_and_answer_of_decoding() -> None:
    plan = make_plan(Wishes(tokens=1000), limits(context=64))
    assert plan.decode_prompt + plan.tokens == 64
    assert "32 tokens a row: measured instead of 1000" in plan.notes[-1]


def test_without_a_prompt_cache_nothing_is_warm() -> None:
    plan = make_plan(Wishes(), limits(prompt_cache=False))
    assert not plan.warm
    assert "no warm TTFT" in plan.notes[0]


def test_wishes_of_a_command_line() -> None:
    wishes = make_wishes(prompts="128, 64", rows="3", tokens=None, repeats=2)
    assert wishes == Wishes(prompts=(128, 64), rows=(3,), repeats=2)


@pytest.mark.parametrize("text", ["", ",", "1,,2", "a", "1.5", "-1", "1;2", "9" * 12, "²"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="--rows must be whole numbers"):
        parse_sizes(text, "--rows")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompts": "15"}, "--prompts must be at least 16, not 15"),
        ({"rows": "4,0"}, "--rows must be at least 1, not 0"),
        ({"tokens": 1}, "--tokens must be at least 2, not 1"),
        ({"repeats": 0}, "--repeats must be at least 1, not 0"),
    ],
)
def test_sizes_that_are_too_small_are_refused(changes: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"prompts": None, "rows": None, "tokens": None, "repeats": None}
    with pytest.raises(UsageProblem, match=said):
        make_wishes(**(given | changes))
