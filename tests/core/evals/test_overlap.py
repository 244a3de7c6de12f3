"""Runs of tokens that two texts share."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from core.evals.overlap import RUN, SharedRun, shared_runs, words_of


def starts(left: list[list[int]], right: list[list[int]]) -> list[tuple[int, int, int, int]]:
    found = shared_runs(left, right)
    return [(r.sequence, r.start, r.other_sequence, r.other_start) for r in found]


def test_a_run_is_found_where_it_stands() -> None:
    run = list(range(100, 100 + RUN))
    left, right = [[1, 2], [3, *run, 4]], [[5] * 20, [6, 7, *run]]
    assert starts(left, right) == [(1, 1, 1, 2)]


def test_twelve_tokens_are_no_run() -> None:
    run = list(range(RUN - 1))
    assert starts([[50, *run, 51]], [[60, *run, 61]]) == []


def test_a_run_does_not_cross_sequences() -> None:
    run = list(range(RUN))
    assert starts([run[:6], run[6:]], [run]) == []


def test_equal_hashes_are_not_equal_tokens() -> None:
    # -1 and -2 have the same hash in CPython.
    assert hash(-1) == hash(-2)
    assert starts([[-1] * RUN], [[-2] * RUN]) == []


def test_a_repeated_token_is_linear() -> None:
    # 100,000 equal tokens: a suffix comparison at every place would take minutes.
    found = list(shared_runs([[7] * 100_000], [[7] * 1_000]))
    assert len(found) == 100_000 - RUN + 1
    assert found[-1] == SharedRun(sequence=0, start=100_000 - RUN, other_sequence=0, other_start=0)


@given(st.lists(st.lists(st.integers(0, 1), max_size=12), max_size=4), st.integers(0, 2**16))
def test_runs_are_those_of_a_plain_search(left: list[list[int]], seed: int) -> None:
    draw = random.Random(seed)
    right = [[draw.randint(0, 1) for _ in range(draw.randint(0, 12))] for _ in range(3)]
    run = 4
    expected = {
        (index, start)
        for index, sequence in enumerate(left)
        for start in range(len(sequence) - run + 1)
        if any(
            sequence[start : start + run] == other[place : place + run]
            for other in right
            for place in range(len(other) - run + 1)
        )
    }
    assert {(r.sequence, r.start) for r in shared_runs(left, right, run=run)} == expected


def test_words_of_scripts_without_spaces_are_characters() -> None:
    assert words_of("Don't stop: 3.5 km") == ["Don", "'", "t", "stop", ":", "3", ".", "5", "km"]
    assert words_of("茶馆 opens") == ["茶", "馆", "opens"]
    assert words_of("한글 ไทย") == ["한", "글", "ไ", "ท", "ย"]
