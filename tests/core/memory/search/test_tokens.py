"""What a text is cut into, whatever its script, and what is the same word."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.memory.search.tokens import LONGEST_WORD, fold, tokens


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "The cat's C++, C# and F#.",
            ["the", "cat", "s", "c", "+", "+", "c", "#", "and", "f", "#"],
        ),
        ("# Heading", ["heading"]),
        ("foo-bar foo_bar 3.14", ["foo", "bar", "foo", "bar", "3", "14"]),
        ("Caf\u00e9 Cafe\u0301 \u0141\u00f3d\u017a", ["cafe", "cafe", "lodz"]),
        ("Stra\u00dfe \ufb01n \uff21\uff22", ["strasse", "fin", "ab"]),
        ("\u0401\u043b\u043a\u0430 \u0435\u043b\u043a\u0430", ["\u0435\u043b\u043a\u0430"] * 2),
        ("東京都に行った", ["東京", "京都", "都に", "に行", "行っ", "った", "た"]),
        ("東京Tower", ["東京", "京", "tower"]),
        ("서울에", ["서울", "울에", "에"]),
        ("한", ["한"]),
        ("ไทย", ["ไท", "ทย", "ย"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("\u0627\u0644\u0652\u0639\u064e\u0631\u064e\u0628", ["\u0627\u0644\u0639\u0631\u0628"]),
        ("price $5 \u20ac5 \U0001f34e", ["price", "$", "5", "\u20ac", "5", "\U0001f34e"]),
        ("", []),
        ("*?! \u2014 ...", []),
    ],
)
def test_words_of_many_scripts(text: str, words: list[str]) -> None:
    assert tokens(text) == words


def test_a_query_may_go_on_where_an_unspaced_run_ends() -> None:
    assert tokens("東京", whole=False) == ["東京"]
    assert tokens("東", whole=False) == ["東"]
    assert tokens("東京 tower", whole=False) == ["東京", "京", "tower"]


def test_a_voiced_kana_is_another_letter() -> None:
    assert tokens("かき") != tokens("がき")
    assert tokens(unicodedata.normalize("NFD", "がき")) == tokens("がき")


def test_a_long_word_counts_by_its_beginning() -> None:
    assert tokens("a" * 1000) == ["a" * LONGEST_WORD]


@given(st.text())
def test_no_word_holds_what_separates_words_or_quotes_them(text: str) -> None:
    for word in tokens(text):
        assert word
        assert not set(word) & set(' \n"*')


@given(st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    assert tokens(fold(text)) == tokens(text)
