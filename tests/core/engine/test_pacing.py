"""Prefill is sized by what the rows that decode can wait for."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.engine.pacing import Pacing


def simulate(preference: Literal["latency", "throughput"], rate: float, step: float) -> Pacing:
    pacing = Pacing(preference=preference, most=512)
    for _ in range(30):
        pacing.observe(seconds=step, decoding=4, prefilled=0)
        tokens = pacing.tokens(decoding=4)
        pacing.observe(seconds=lasts(tokens, rate, step), decoding=4, prefilled=tokens)
    return pacing


def lasts(tokens: int, rate: float, step: float) -> float:
    """Return the seconds of a decode step and a chunk: both read all weights."""
    return step + 0.7 * step + tokens / rate


def test_nobody_waits_when_nobody_decodes() -> None:
    assert simulate("latency", 290, 0.08).tokens(decoding=0) == 512


@pytest.mark.parametrize(("preference", "steps"), [("latency", 3.6), ("throughput", 5.5)])
def test_a_step_lasts_a_few_usual_ones(
    preference: Literal["latency", "throughput"], steps: float
) -> None:
    tokens = simulate(preference, 290, 0.08).tokens(decoding=4)
    assert lasts(tokens, 290, 0.08) == pytest.approx(0.08 * steps, rel=0.1)


def test_a_machine_in_no_hurry_still_gets_on() -> None:
    assert simulate("latency", 1, 0.001).tokens(decoding=1) == 8
    assert simulate("latency", 1e9, 1).tokens(decoding=1) == 512


@given(
    st.lists(st.tuples(st.floats(1e-6, 100), st.integers(0, 8), st.integers(0, 4096))),
    st.integers(0, 8),
)
def test_any_history_gives_a_chunk_within_the_limits(
    history: list[tuple[float, int, int]], decoding: int
) -> None:
    pacing = Pacing(preference="latency", most=512)
    for seconds, rows, prefilled in history:
        pacing.observe(seconds=seconds, decoding=rows, prefilled=prefilled)
    assert 8 <= pacing.tokens(decoding=decoding) <= 512


def test_a_step_that_copied_much_is_not_taken_for_usual() -> None:
    pacing = simulate("latency", 290, 0.08)
    usual = pacing.tokens(decoding=4)
    pacing.observe(seconds=2.0, decoding=4, prefilled=0)
    assert pacing.tokens(decoding=4) < 1.5 * usual
