"""Prompts of an exact length, for tokenizers of several kinds."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import pytest

from core.bench.prompts import make_text


def by_words(text: str) -> int:
    return len(text.split())


def by_bytes(text: str) -> int:
    return len(text.encode())


def by_pairs_with_special_tokens(text: str) -> int:
    return 2 + sum((len(word) + 1) // 2 for word in re.findall(r" ?\w+|\W", text))


def up_to_600(text: str) -> int:
    return min(600, len(text))


@pytest.mark.parametrize(
    "count",
    [by_words, by_bytes, by_pairs_with_special_tokens, up_to_600],
    ids=lambda count: count.__name__,
)
@pytest.mark.parametrize("tokens", [16, 17, 100, 333])
def test_a_text_has_the_length_that_is_wanted(count: Callable[[str], int], tokens: int) -> None:
    for seed in range(5):
        assert count(make_text(tokens, count=count, random=Random(seed))) == tokens


def test_what_cannot_be_had_exactly_is_shorter() -> None:
    def by_fives(text: str) -> int:
        return 5 * len(text.split())

    assert by_fives(make_text(33, count=by_fives, random=Random(0))) == 30


def test_texts_follow_the_seed_and_differ_from_the_start() -> None:
    def texts(seed: int) -> list[str]:
        random = Random(seed)
        return [make_text(40, count=by_words, random=random) for _ in range(20)]

    assert texts(1) == texts(1)
    beginnings = [tuple(text.split()[:3]) for text in texts(1) + texts(2)]
    assert len(set(beginnings)) == len(beginnings)
