"""Regular expressions are read as Python and JavaScript agree, in linear time."""

from __future__ import annotations

import random
import re

import pytest

from core.engine.grammar import codepoints as cp
from core.engine.grammar.automaton import (
    both,
    from_regex,
    from_words,
    of_length,
    opposite,
    without,
)
from core.engine.grammar.regex import BadSyntax, full_match, parse, search
from core.engine.grammar.screen import NotPossible, TooLong

PATTERNS = (
    "a|b*", "^a+b?$", "[^a]{2}", "(ab|c){1,3}$", "a{,2}", "[]a]", r"\[\d-]", "[a-c-]x", "(?:a|b)c",
    "^(a|b)$", "x|^y$", r"\x41|\u0042", r"[\w.]+@", "a{2,}", "(?P<n>a)b", ".", r"\.", "a.c", "()",
    r"\d\s\w", r"[^\d\s]", r"\D\S\W", "a??b", "{", "a{x}",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_it_matches_what_python_matches(pattern: str) -> None:
    draw = random.Random(pattern)
    whole, found = from_regex(full_match(pattern)), from_regex(search(pattern))
    for _ in range(300):
        text = "".join(draw.choice("aabbcx.@[]-A{}1 yB") for _ in range(draw.randrange(5)))
        stripped = pattern if pattern == "x|^y$" else pattern.strip("^$")
        assert whole.matches(text) == bool(re.fullmatch(stripped, text)), text
        assert found.matches(text) == bool(re.search(pattern, text)), text


@pytest.mark.parametrize(
    "pattern", ["[", "(", ")", "a**", "*", "a{2}{3}", "[b-a]", "\\", r"\x1", "a{3,2}", r"[\d-z]"]
)
def test_what_is_not_a_regex_is_refused(pattern: str) -> None:
    with pytest.raises(BadSyntax, match="malformed at character"):
        parse(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(?=a)b", "(?!a)[ab]", "(?<=a)b", "(?i)a", r"\Aab\Z", r"\h", "\\é", r"(a)\1", r"a\b", r"\p{L}",
     "a++", "(" * 200 + ")" * 200],
)  # fmt: skip
def test_what_a_grammar_cannot_express_is_refused(pattern: str) -> None:
    with pytest.raises(NotPossible):
        parse(pattern)


@pytest.mark.parametrize("pattern", ["a^", "$a", "(^a)b", "(a$)b", "(^a)*"])
def test_anchors_within(pattern: str) -> None:
    with pytest.raises(NotPossible):
        full_match(pattern)


@pytest.mark.parametrize("pattern", ["[" * 10_000, r"[\w" * 8000, "(" * 9000, "a" * 9000 + "("])
def test_long_patterns_are_read_once(pattern: str) -> None:
    with pytest.raises(TooLong):
        parse(pattern)


def test_sets_of_characters() -> None:
    ends = cp.union([cp.one_of("az"), cp.one_of("by")])
    assert ends == ((97, 98), (121, 122))
    assert cp.complement(cp.complement(ends)) == ends
    assert cp.minus(ends, cp.one_of("a")) == ((98, 98), (121, 122))
    assert cp.intersection(cp.ANY, ((0xD000, 0xE100),)) == ((0xD000, 0xD7FF), (0xE000, 0xE100))


def test_languages_are_joined_and_cut() -> None:
    words = from_words(["a", "ab", ""])
    assert [words.matches(text) for text in ("", "a", "ab", "b")] == [True, True, True, False]
    others = opposite(words)
    assert [others.matches(text) for text in ("", "a", "ab", "b")] == [False, False, False, True]
    counted = of_length(from_regex(full_match("[ab]+")), 2, 3)
    assert [counted.matches("ab" * n) for n in range(3)] == [False, True, False]
    assert both(counted, others).matches("ba")
    assert not both(counted, others).matches("ab")
    assert both(words, others).is_empty
    free = without(["</a>", "<|b"])
    texts = ("<", "</a", "<</a>", "<|<|b", "x</a ><|c")
    assert [free.matches(text) for text in texts] == [True, True, False, False, True]
