"""JSON as models write it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.tools.source import Source
from core.engine.tools.tolerant import DEEPEST, JsonReader, whole
from tests.core.engine.tools.folding import is_json


def mend(text: str, *, cut: bool = False) -> str:
    """Read one value and return what was written, whether or not it was complete."""
    return "".join(part or "" for part in JsonReader(Source(text, over=True, cut=cut)).read())


@pytest.mark.parametrize(
    ("text", "expected", "repairs"),
    [
        ("{'a': 'it\\'s \"so\"'}", {"a": 'it\'s "so"'}, {"quotes"}),
        ("{a: 1, $b-c: 2,}", {"a": 1, "$b-c": 2}, {"quotes", "trailing_comma"}),
        ("[1,2,]", [1, 2], {"trailing_comma"}),
        ("[True, False, None]", [True, False, None], {"python_literal"}),
        ("[0, -0.50, 1E+2]", [0, -0.5, 100.0], set()),
        ('{"": {"": ""}}', {"": {"": ""}}, set()),
        ('["a\nb\tc"]', ["a\nb\tc"], {"control_characters"}),
        ('["\\/ \\u00e9 \\ud83d\\ude00 \\n"]', ["/ é 😀 \n"], set()),
        ('"text"', "text", set()),
        ("12", 12, set()),
    ],
)
def test_whole_values_are_repaired(text: str, expected: object, repairs: set[str]) -> None:
    found: set[str] = set()
    written = whole(text, found)
    assert written is not None
    assert json.loads(written) == expected
    assert found == repairs
    if not repairs:
        assert written == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "b', '{"a": "b'),
        ('{"a": "b\\', '{"a": "b'),
        ('{"a": "b\\u00', '{"a": "b'),
        ('{"a": "b\\d"}', '{"a": "b'),
        ('{"a": "b\\\'"}', '{"a": "b'),
        ('{"a": 1, "b', '{"a": 1'),
        ('{"a": 1, "b":', '{"a": 1'),
        ('{"a": 1, "b": tru', '{"a": 1'),
        ('{"a": 1 "b": 2}', '{"a": 1'),
        ('{"a": "b"c"}', '{"a": "b"'),
        ('{"a": 1]', '{"a": 1'),
        ('{"a": 1, "b" 2}', '{"a": 1'),
        ("{1: 2, {", '{"1": 2'),
        ("[1,,2]", "[1"),
        ("[1, what, 2]", "[1"),
        ("[1, NaN]", "[1"),
        ("[1, +1]", "[1"),
        ("[1, .5]", "[1"),
        ("[1, 2.]", "[1"),
        ("[1, 007]", "[1"),
        ("[1,\u00a02]", "[1"),
        ("[1, " + "9" * 5000 + "]", "[1"),
        ("what", ""),
        ("", ""),
    ],
)
def test_what_makes_no_sense_ends_it(text: str, expected: str) -> None:
    assert mend(text) == expected
    assert whole(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, {"b": 2', '{"a": [1, {"b": 2}]}'),
        ('{"a": "b" ', '{"a": "b" }'),
        ('{"a": {}', '{"a": {}}'),
        ('{"a": 1,', '{"a": 1'),
        ('{"a":', "{"),
        ('{"a": [', '{"a": ['),
        ('{"a": "b', '{"a": "b'),
        ("{", "{"),
    ],
)
def test_only_brackets_behind_a_complete_value_are_added(text: str, expected: str) -> None:
    assert mend(text) == expected
    assert not is_json(mend(text, cut=True))
    reader = JsonReader(Source(text + "<end>", over=True, cut=True), ends=["<end>"])
    written = "".join(part or "" for part in reader.read())
    assert is_json(written) == is_json(expected) == (reader.repairs == {"closing_brackets"})


def test_depth_has_a_limit() -> None:
    fits = "[" * DEEPEST + "]" * DEEPEST
    assert whole(fits) == fits
    assert whole(f"[{fits}]") is None
    assert mend("[" * 100_000) == "[" * DEEPEST


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="{}[]:,\"'\\ \n0123.eE+-truefalsnN_aué", max_size=40))
def test_what_is_read_as_a_whole_is_json_and_keeps_its_letters(text: str) -> None:
    repairs: set[str] = set()
    written = whole(text, repairs)
    if written is None:
        assert not is_json(text) or len(text) != len(text.encode())
        return
    json.loads(written)
    assert repairs or written == text.rstrip()
    if is_json(text):
        assert written == text.rstrip()
    for character in "aeé0123.-+:":
        assert written.count(character) >= text.count(character)


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_json_stays_what_it_is(value: object) -> None:
    for text in (json.dumps(value, indent=1), json.dumps(value, ensure_ascii=False)):
        assert whole(text) == text
