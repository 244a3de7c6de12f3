"""Stop texts: never leaked, and the same however the text is cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.engine.stops import StopMatcher

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "cases" / "stops.jsonl").read_text().splitlines()
]


def shown(pieces: list[str], stops: list[str]) -> str:
    matcher = StopMatcher(stops)
    text = "".join(matcher.push(piece) for piece in pieces)
    return text + matcher.flush()


@pytest.mark.parametrize("case", CASES, ids=lambda c: repr(c["stop"]))
def test_cases(case: dict[str, Any]) -> None:
    stops = [case["stop"]] if isinstance(case["stop"], str) else case["stop"]
    assert shown(case["pieces"], stops) == case["text"]
    assert shown(list("".join(case["pieces"])), stops) == case["text"]


@given(
    st.lists(st.text("ab", max_size=4), max_size=8),
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
)
def test_any_cutting_gives_the_same(pieces: list[str], stops: list[str]) -> None:
    whole = "".join(pieces)
    assert shown(pieces, stops) == shown([whole], stops) == shown(list(whole), stops)


@given(st.text("abc", max_size=30), st.lists(st.text("abc", min_size=1, max_size=4), min_size=1))
def test_nothing_of_a_stop_is_shown(text: str, stops: list[str]) -> None:
    result = shown(list(text), stops)
    assert text.startswith(result)
    assert not any(stop in result for stop in stops)


def test_text_is_not_held_longer_than_needed() -> None:
    matcher = StopMatcher(["END"])
    assert matcher.push("say E") == "say "
    assert matcher.push("x") == "Ex"


def test_nothing_comes_after_a_stop() -> None:
    matcher = StopMatcher(["."])
    assert matcher.push("one. two") == "one"
    assert matcher.stopped
    assert matcher.push("more") == ""
    assert matcher.flush() == ""
