"""Raw text becomes what the schema says, or stays text."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine.grammar.plan import make_plan
from core.engine.grammar.screen import NotPossible
from core.engine.request import Tool, ToolUse
from core.engine.tools.choose import load_family
from core.engine.tools.schema import EVERY, choices, decode, kinds
from tests.core.engine.tools.folding import FAMILIES, parse, tool

ROOT = {
    "$defs": {
        "count": {"type": "integer"},
        "alias": {"$ref": "#/$defs/count"},
        "loop": {"$ref": "#/$defs/loop"},
        "tree": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/tree"}]},
        "a/b": {"enum": ["x", "y"]},
    }
}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"type": "int"}, {"integer"}),
        ({"type": "Dict"}, {"object"}),
        ({"type": "thing"}, EVERY),
        ({"type": 7}, EVERY),
        ({}, EVERY),
        (None, EVERY),
        (True, EVERY),
        ({"enum": ["a", 1, None]}, {"string", "integer", "null"}),
        ({"enum": []}, EVERY),
        ({"const": 2.5}, {"number"}),
        ({"const": False}, {"boolean"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"string", "null"}),
        ({"oneOf": [{"type": "array"}, {"properties": {}}]}, {"array", "object"}),
        ({"anyOf": []}, EVERY),
        ({"allOf": [{"type": ["string", "integer"]}, {"type": "integer"}]}, {"integer"}),
        ({"type": "string", "nullable": True}, {"string", "null"}),
        ({"items": {}}, {"array"}),
        ({"$ref": "#/$defs/alias"}, {"integer"}),
        ({"$ref": "#/$defs/a~1b"}, {"string"}),
        ({"$ref": "#/$defs/tree"}, {"string"}),
        ({"$ref": "#/$defs/loop"}, EVERY),
        ({"$ref": "#/$defs/none"}, EVERY),
        ({"$ref": "https://example.org/x"}, EVERY),
        ({"$ref": 3}, EVERY),
    ],
)
def test_kinds(schema: Any, expected: set[str]) -> None:
    assert kinds(schema, ROOT) == expected


def test_many_references_to_each_other_are_quick() -> None:
    root = {"$defs": {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 9} for n in range(30)}}
    root["$defs"]["30"] = {"type": "integer"}  # type: ignore[dict-item]
    assert kinds({"$ref": "#/$defs/0"}, root)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"enum": ["a", "b"]}, ["a", "b"]),
        ({"const": "a"}, ["a"]),
        ({"enum": ["a", 1]}, []),
        ({"$ref": "#/$defs/a~1b"}, ["x", "y"]),
        ({"$ref": "#/$defs/loop"}, []),
        (None, []),
    ],
)
def test_choices(schema: Any, expected: Any) -> None:
    assert list(choices(schema, ROOT)) == expected


@pytest.mark.parametrize(
    ("text", "allowed", "expected"),
    [
        ("3", {"integer"}, "3"),
        (" -3\n", {"integer"}, "-3"),
        ("3.0", {"integer"}, "3"),
        ("3.5", {"integer"}, None),
        ("3.50", {"number"}, "3.50"),
        ("1e3", {"integer"}, "1000"),
        ("007", {"integer"}, None),
        ("+3", {"integer"}, None),
        (".5", {"number"}, None),
        ("007", {"integer", "string"}, None),
        ("7", {"integer", "string"}, "7"),
        ("three", {"integer"}, None),
        ("9" * 5000, {"integer"}, None),
        ("True", {"boolean"}, "true"),
        ("FALSE", {"boolean"}, "false"),
        ("yes", {"boolean"}, None),
        ("1", {"boolean"}, None),
        ("None", {"string", "null"}, "null"),
        ("null", {"string"}, None),
        ("null", {"integer", "null"}, "null"),
        ("NaN", {"number", "null"}, None),
        ("[1, 'a', None]", {"array"}, '[1, "a", null]'),
        ("[1] and more", {"array"}, None),
        ("[1", {"array"}, None),
        ("[1]", {"object"}, None),
        ('{"a": {"b": []}}', set(EVERY), '{"a": {"b": []}}'),
        ("{}", {"string"}, None),
        ("", set(EVERY), None),
    ],
)
def test_decode(text: str, allowed: set[str], expected: str | None) -> None:
    assert decode(text, frozenset(allowed)) == expected


PARAMETERS = {
    "none": "{}",
    "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "either": {"type": ["integer", "string"]},
    "unit": {"enum": ["c", "f f"]},
    "number": {"type": "number"},
    "object": {"type": "object"},
    "free": {},
}


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("maybe", "null", None),
        ("maybe", "None", None),
        ("maybe", "nobody", "nobody"),
        ("maybe", "12", "12"),
        ("either", "12", 12),
        ("either", "12 or so", "12 or so"),
        ("either", "012", "012"),
        ("unit", " f f\n", "f f"),
        ("unit", "x ", "x "),
        ("number", "2.50", 2.5),
        ("number", "much", "much"),
        ("object", "{'a': True,}", {"a": True}),
        ("object", "{'a': ", "{'a': "),
        ("free", "[1]", [1]),
        ("free", "text", "text"),
        ("free", "true story", "true story"),
        ("free", '"quoted"', '"quoted"'),
        ("unlisted", "5", 5),
        ("unlisted", "005", "005"),
    ],
)
def test_through_markup(key: str, text: str, expected: Any) -> None:
    markup = (
        f"<tool_call>\n<function=f>\n<parameter={key}>\n{text}\n</parameter>\n</function>\n"
        "</tool_call>"
    )
    for parts in (markup, list(markup)):
        folded = parse("qwen", parts, tool(PARAMETERS))
        assert json.loads(folded.arguments[0]) == {key: expected}


SCHEMAS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "enum",
                    "const",
                    "anyOf",
                    "allOf",
                    "$ref",
                    "properties",
                    "items",
                    "nullable",
                ]
            ),
            inner | st.sampled_from(["string", "integer", "#", "#/x", "#/properties/f"]),
            max_size=4,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=150, deadline=None)
@given(schema=SCHEMAS, text=st.sampled_from(["3", "true", "null", "[1]", "{", "x", ""]))
def test_any_schema_whatever(schema: Any, text: str) -> None:
    tools = tool({"x": schema})
    markup = f"<tool_call>\n<function=f>\n<parameter=x>\n{text}\n</parameter>\n</function>"
    assert set(json.loads(parse("qwen", markup, tools).arguments[0])) == {"x"}


@settings(max_examples=40, deadline=None)
@given(schema=SCHEMAS, required=st.sampled_from([["x"], [], None, "x", [1]]))
def test_a_grammar_is_written_or_refused_whatever_the_schema(schema: Any, required: Any) -> None:
    parameters = {"properties": {"x": schema, "y": {"type": "string"}}, "required": required}
    for whole in (parameters, {"properties": schema}):
        tools = ToolUse(tools=(Tool(name="f", parameters=whole),), mode="named", name="f")
        for family in FAMILIES:
            calls = ""
            with suppress(NotPossible):
                calls = make_plan(None, load_family(family).call_format(tools)).calls
            assert not calls or json.loads(calls)["type"]
