"""Schemas are rewritten into ones that xgrammar enforces; what is lost on the way is named."""

from __future__ import annotations

from typing import Any

import pytest

from core.engine.grammar.regex import full_match, search
from core.engine.grammar.schema import are_disjoint, prepare_schema
from core.engine.grammar.screen import NotPossible


@pytest.mark.parametrize(
    ("schema", "prepared", "unenforced"),
    [
        ({"title": "x", "$comment": "y", "default": 3}, {}, set()),
        ({"minimum": 2}, {"type": "number", "minimum": 2}, set()),
        ({"type": "integer", "minimum": 1.5}, {"type": "integer", "minimum": 2}, set()),
        ({"type": "string", "enum": [1, "a"]}, {"enum": ["a"]}, set()),
        ({"const": 1, "minimum": 5}, {"enum": [1]}, {"minimum"}),
        ({"type": "array"}, {"type": "array", "items": {}}, set()),
        (
            {"type": "array", "items": [{"const": 1}], "additionalItems": False},
            {"type": "array", "prefixItems": [{"enum": [1]}], "items": False},
            set(),
        ),
        (
            {"type": "object", "required": ["a"]},
            {"type": "object", "required": ["a"], "properties": {"a": {}}},
            set(),
        ),
        (
            {"type": "string", "pattern": "a|^b$"},
            {"type": "string", "pattern": "^(.*(a).*|(b))$"},
            set(),
        ),
        (
            {"type": "string", "pattern": "a", "maxLength": 3, "format": "date"},
            {"type": "string", "pattern": "^(.*(a).*)$"},
            {"maxLength"},
        ),
        (
            {"allOf": [{"type": "integer"}, {"minimum": 3}, {"minimum": 2}]},
            {"type": "integer", "minimum": 3},
            set(),
        ),
        (
            {"type": "string", "anyOf": [{"minLength": 2}, {"const": "a"}]},
            {"anyOf": [{"type": "string", "minLength": 2}, {"enum": ["a"]}]},
            set(),
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            set(),
        ),
        (
            {"oneOf": [{"minimum": 1}, {"maximum": 3}]},
            {"anyOf": [{"type": "number", "minimum": 1}, {"type": "number", "maximum": 3}]},
            {"oneOf"},
        ),
        ({"type": "string", "not": {"const": "a"}}, {"type": "string"}, {"not"}),
        ({"$ref": "other.json"}, {}, {"$ref"}),
        (
            {"$ref": "#/$defs/a", "minimum": 3, "$defs": {"a": {"type": "integer"}}},
            {
                "type": "integer",
                "minimum": 3,
                "$defs": {"a": {"type": "integer"}},
            },
            set(),
        ),
    ],
)
def test_rewriting(schema: Any, prepared: Any, unenforced: set[str]) -> None:
    assert prepare_schema(schema) == (prepared, unenforced)


def test_references_in_a_circle_end() -> None:
    prepared, unenforced = prepare_schema({"allOf": [{"$ref": "#"}], "type": "object"})
    assert (prepared, unenforced) == ({"type": "object"}, {"$ref"})


def test_the_given_schema_is_left_as_it_was() -> None:
    schema = {"type": "object", "required": ["a"], "$defs": {"b": {"items": [True]}}}
    copy = {"type": "object", "required": ["a"], "$defs": {"b": {"items": [True]}}}
    prepare_schema(schema)
    assert schema == copy


def test_references_that_multiply_are_refused() -> None:
    doubling: dict[str, Any] = {
        f"d{n}": {
            "properties": {p: {"$ref": f"#/$defs/d{n + 1}", "minProperties": 1} for p in "ab"}
        }
        for n in range(40)
    }
    with pytest.raises(NotPossible):
        prepare_schema({"$ref": "#/$defs/d0", "minProperties": 0, "$defs": doubling})


@pytest.mark.parametrize(
    ("pattern", "full", "found"),
    [
        ("a", "a", ".*(a).*"),
        ("^a$", "a", "(a)"),
        ("^a|b$", "a|b", "(a).*|.*(b)"),
        (r"^\$[^$]$", r"\$[^$]", r"(\$[^$])"),
        ("(a|b)", "(a|b)", ".*((a|b)).*"),
    ],
)
def test_anchors(pattern: str, full: str, found: str) -> None:
    assert full_match(pattern) == full
    assert search(pattern) == found


@pytest.mark.parametrize("pattern", ["a^", "$a", "(^a)", "(a$)b"])
def test_anchors_within(pattern: str) -> None:
    with pytest.raises(NotPossible):
        full_match(pattern)


def test_disjoint_branches() -> None:
    tagged = [
        {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]}
        for kind in "ab"
    ]
    assert are_disjoint(tagged)
    assert not are_disjoint([tagged[0], tagged[0]])
    assert not are_disjoint([{"type": "integer"}, {"type": "number"}])
    assert not are_disjoint([{"enum": [1, 2]}, {"const": 1.0}])
    assert not are_disjoint([True, {"type": "null"}])


@pytest.mark.parametrize(
    "pattern", ["(?=a)b", "(?!a)[ab]", "(?<=a)b", "(?<!a)b", r"\Aab\Z", r"[\Z]", r"\h", "\\é"]
)
def test_what_the_backend_would_pass_over_is_refused(pattern: str) -> None:
    for read in (full_match, search):
        with pytest.raises(NotPossible, match="the regex"):
            read(pattern)


def test_a_dot_is_no_line_end() -> None:
    dot = r"[^\n\r\u2028\u2029]"
    assert full_match(r"^a.[.]\.(.|b)$") == rf"a{dot}[.]\.({dot}|b)"
