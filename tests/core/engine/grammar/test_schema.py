"""Schemas are rewritten into the few forms that grammars are written from; losses are named."""

from __future__ import annotations

from typing import Any

import pytest

from core.engine.grammar.disjoint import are_disjoint
from core.engine.grammar.schema import Preparer
from core.engine.grammar.screen import NotPossible

OBJECT = {"type": "object"}


@pytest.mark.parametrize(
    ("schema", "prepared", "unenforced"),
    [
        ({"title": "x", "$comment": "y", "default": 3}, {}, set()),
        ({"minimum": 2}, {"type": "number", "minimum": 2}, set()),
        ({"type": "string", "enum": [1, "a"]}, {"enum": ["a"]}, set()),
        ({"const": 1, "minimum": 5}, False, set()),
        ({"enum": [1, 7, "a"], "minimum": 5}, {"enum": [7, "a"]}, set()),
        ({"enum": ["ab", "b"], "pattern": "^a", "maxLength": 2}, {"enum": ["ab"]}, set()),
        ({"enum": [[1]], "items": {"type": "string"}}, {"enum": [[1]]}, {"items"}),
        ({"enum": [1, True, "a"], "not": {"enum": [1.0]}}, {"enum": [True, "a"]}, set()),
        ({"type": "boolean", "not": {"const": True}}, {"enum": [False]}, set()),
        ({"type": ["string", "null"], "not": {"type": "null"}}, {"type": "string"}, set()),
        ({"type": "string", "not": {"minLength": 3}}, {"type": "string"}, {"not"}),
        (
            {"type": "string", "not": {"pattern": "a"}},
            {"type": "string", "except": [{"pattern": "a"}]},
            set(),
        ),
        (
            {"type": "array", "items": [{"const": 1}], "additionalItems": False},
            {"type": "array", "prefixItems": [{"const": 1}], "items": False},
            set(),
        ),
        (
            {"allOf": [{"type": "integer"}, {"minimum": 3}, {"minimum": 2}]},
            {"type": "integer", "minimum": 3},
            set(),
        ),
        (
            {"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}]},
            {"type": "string", "pattern": ["a", "b"]},
            set(),
        ),
        ({"allOf": [{"type": "integer"}, {"type": "string"}]}, False, set()),
        (
            {"allOf": [{"multipleOf": 4}, {"multipleOf": 6}], "type": "integer"},
            {"type": "integer", "multipleOf": 12},
            set(),
        ),
        (
            {
                "allOf": [
                    OBJECT | {"properties": {"x": {}}, "additionalProperties": False},
                    OBJECT | {"properties": {"x": {"type": "null"}, "y": {}}},
                ]
            },
            {
                "type": "object",
                "properties": {"x": {"allOf": [{}, {"type": "null"}]}, "y": False},
                "additionalProperties": False,
            },
            set(),
        ),
        (
            OBJECT
            | {"allOf": [{"properties": {"a": {"type": "null"}}}], "unevaluatedProperties": False},
            OBJECT | {"properties": {"a": {"type": "null"}}, "additionalProperties": False},
            set(),
        ),
        (
            {"type": "string", "anyOf": [{"minLength": 2}, {"const": "a"}, {"type": "null"}]},
            {"anyOf": [{"type": "string", "minLength": 2}, {"type": "string", "const": "a"}]},
            set(),
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            set(),
        ),
        (
            {"oneOf": [{"minimum": 1}, {"maximum": 3}]},
            {"anyOf": [{"minimum": 1}, {"maximum": 3}]},
            {"oneOf"},
        ),
        ({"$ref": "other.json"}, {}, {"$ref"}),
        (
            {"$ref": "#/$defs/a", "minimum": 3, "$defs": {"a": {"type": "integer"}}},
            {"type": "integer", "minimum": 3},
            set(),
        ),
        (
            {"$ref": "#b", "minimum": 3, "$defs": {"a": {"$anchor": "b", "type": "integer"}}},
            {"type": "integer", "minimum": 3},
            set(),
        ),
        ({"type": "string", "format": "regex"}, {"type": "string"}, {"format regex"}),
        (
            {"allOf": [{"format": "email", "type": "string"}, {"format": "uuid"}]},
            {"type": "string", "format": ["email", "uuid"]},
            set(),
        ),
    ],
)
def test_rewriting(schema: Any, prepared: Any, unenforced: set[str]) -> None:
    preparer = Preparer(schema)
    assert preparer.prepare(schema) == prepared
    assert preparer.unenforced == unenforced


def test_references_in_a_circle_end() -> None:
    schema = {"allOf": [{"$ref": "#"}], "type": "object"}
    preparer = Preparer(schema)
    assert preparer.prepare(schema) == {"type": "object"}
    assert preparer.unenforced == {"$ref"}


def test_the_given_schema_is_left_as_it_was() -> None:
    schema = {"type": "object", "allOf": [{"required": ["a"]}], "$defs": {"b": {"items": [True]}}}
    copy = {"type": "object", "allOf": [{"required": ["a"]}], "$defs": {"b": {"items": [True]}}}
    Preparer(schema).prepare(schema)
    assert schema == copy


def test_choices_that_multiply_are_not_written_out() -> None:
    schema = {"allOf": [{"anyOf": [{"minimum": n}, {"maximum": 3}]} for n in range(40)]}
    preparer = Preparer(schema)
    preparer.prepare(schema)
    assert preparer.unenforced == {"anyOf"}


def test_what_grows_without_end_is_refused() -> None:
    doubling: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(40)
    }
    schema = {"$ref": "#/$defs/d0", "minProperties": 0, "$defs": doubling | {"d40": {}}}
    with pytest.raises(NotPossible):
        Preparer(schema).prepare(schema)


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
