"""JSON as models write it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.tools.source import Source
from core.engine.tools.tolerant import DEEPEST, JsonReader, whole


def mend(text: str) -> str:
    """Read one value and return what was written, whether or not it was complete."""
    return "".join(part or "" for part in JsonReader(Source(text, over=True)).read())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'a': 'it\\'s \"so\"'}", {"a": 'it\'s "so"'}),
        ("{a: 1, $b-c: 2,}", {"a": 1, "$b-c": 2}),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
        ("[1,,2,]", [1, 2]),
        ("[True, False, None, NaN, Infinity]", [True, False, None, None, None]),
        ("[+1, .5, 2., 007, -0.50, 1E+2]", [1, 0.5, 2, 7, -0.5, 100.0]),
        ('{"": {"": ""}}', {"": {"": ""}}),
        ('["a\nb\tc"]', ["a\nb\tc"]),
        ('["\\d \\x41 \\u00e9 \\ud83d\\ude00 \\ud83d \\uZZ"]', ["\\d A é 😀 \ufffd \\uZZ"]),
        ('"text"', "text"),
        ("12", 12),
    ],
)
def test_whole_values_are_mended(text: str, expected: object) -> None:
    written = whole(text)
    assert written is not None
    assert json.loads(written) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "b', '{"a":"b"}'),
        ('{"a": "b\\', '{"a":"b"}'),
        ('{"a": "b\\u00', '{"a":"b"}'),
        ('{"a": 1, "b', '{"a":1}'),
        ('{"a": 1, "b":', '{"a":1}'),
        ('{"a": 1, "b": tru', '{"a":1}'),
        ('{"a": [1, {"b": 2', '{"a":[1,{"b":2}]}'),
        ('{"a": 1]', '{"a":1}'),
        ('{"a": 1, "b" 2}', '{"a":1}'),
        ("{1: 2, {", '{"1":2}'),
        ("[1, what, 2]", "[1]"),
        ("[1, " + "9" * 5000 + "]", "[1]"),
        ("what", ""),
        ("", ""),
    ],
)
def test_what_makes_no_sense_ends_it(text: str, expected: str) -> None:
    assert mend(text) == expected
    assert whole(text) is None


def test_depth_has_a_limit() -> None:
    fits = "[" * DEEPEST + "]" * DEEPEST
    assert whole(fits) == fits
    assert whole(f"[{fits}]") is None
    assert mend("[" * 100_000) == fits


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="{}[]:,\"'\\ \n0123.eE+-truefalsnN_aué", max_size=40))
def test_whatever_is_written_is_json(text: str) -> None:
    written = mend(text)
    if written:
        json.loads(written)


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_json_stays_what_it_is(value: object) -> None:
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert whole(json.dumps(value, indent=1)) == compact
