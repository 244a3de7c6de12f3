"""Raw text decoded by the JSON Schema of the parameter it is for. Imports no arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from core.engine.tools.tolerant import scalar, whole

EVERY = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
"""The types of JSON; a schema that says none of them allows all."""

_ALIASES = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
    "tuple": "array",
    "none": "null",
}
_FURTHEST = 32
"""Schemas followed one within the other."""


def kinds(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    """Return the JSON types that a schema allows; all of them where it says nothing.

    Args:
        schema: a schema, or anything that stands in its place.
        root: the schema in which `$ref` is looked up.
    """
    return _Kinds(root).of(schema) or EVERY


class _Kinds:
    """Finds types, going to every reference once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._found: dict[str, frozenset[str]] = {}
        self._depth = 0

    def of(self, schema: Any) -> frozenset[str]:
        """Return the types of a schema; empty: it is nothing but a reference to itself."""
        if not isinstance(schema, Mapping) or self._depth > _FURTHEST:
            return EVERY
        self._depth += 1
        said = self._referred(schema["$ref"]) if "$ref" in schema else self._said(schema) or EVERY
        self._depth -= 1
        return said | {"null"} if schema.get("nullable") is True else said

    def _referred(self, reference: Any) -> frozenset[str]:
        name = str(reference)
        if name not in self._found:
            self._found[name] = frozenset()  # within itself, a reference adds nothing
            self._found[name] = self.of(resolve(reference, self._root))
        return self._found[name]

    def _said(self, schema: Mapping[str, Any]) -> frozenset[str]:
        """Return what the schema's own keywords say; empty: nothing."""
        if "type" in schema:
            return _named(schema["type"])
        if "const" in schema:
            return frozenset({kind_of(schema["const"])})
        if isinstance(schema.get("enum"), list):
            return frozenset(map(kind_of, schema["enum"]))
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list):
                return frozenset[str]().union(*map(self.of, schema[word]))
        if isinstance(schema.get("allOf"), list):
            return reduce(frozenset.intersection, map(self.of, schema["allOf"]), EVERY)
        shape = "object" if "properties" in schema else "array" if "items" in schema else ""
        return frozenset({shape}) & EVERY


def _named(types: Any) -> frozenset[str]:
    """Return the types that `type` names, as JSON Schema or other languages name them."""
    names = (str(one).lower() for one in (types if isinstance(types, list | tuple) else [types]))
    return frozenset(_ALIASES.get(name, name) for name in names) & EVERY


def resolve(reference: Any, root: Mapping[str, Any]) -> Any:
    """Return what `#/a/b` points to within `root`; None: nothing."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def kind_of(value: Any) -> str:
    """Return the JSON type of a value."""
    if value is None:
        return "null"
    for kind, types in (
        ("boolean", bool),
        ("integer", int),
        ("number", float),
        ("string", str),
        ("array", list),
    ):
        if isinstance(value, types):
            return kind
    return "object"


def choices(schema: Any, root: Mapping[str, Any]) -> Sequence[str]:
    """Return the strings of an `enum` or a `const`; empty: there is none, or not of strings."""
    for _ in range(_FURTHEST):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            break
        schema = resolve(schema["$ref"], root)
    if not isinstance(schema, Mapping):
        return ()
    found = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return found if isinstance(found, list) and all(isinstance(v, str) for v in found) else ()


def property_kinds(name: str, parameters: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that a tool's parameter may have."""
    properties = kinds_map(parameters)
    return kinds(properties.get(name), parameters)


def kinds_map(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schemas of a tool's parameters by name."""
    schema: Any = parameters
    if isinstance(parameters.get("$ref"), str):
        schema = resolve(parameters["$ref"], parameters)
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def may_differ(first: str, allowed: frozenset[str]) -> bool:
    """Tell whether a text that begins so may be anything but a string."""
    begins = {
        "{": "object",
        "[": "array",
        "t": "boolean",
        "T": "boolean",
        "f": "boolean",
        "F": "boolean",
        "n": "null",
        "N": "null",
    }
    if first in begins:
        return begins[first] in allowed
    if first.isdigit() or first in {"-", "+", "."}:
        return bool({"integer", "number"} & allowed)
    return first.isspace()


def decode(text: str, allowed: frozenset[str], repairs: set[str] | None = None) -> str | None:
    """Return raw text as JSON of one of the allowed types but string; None: it fits none.

    Args:
        text: the value.
        allowed: its types.
        repairs: gets the kinds of repair that were needed.
    """
    text = text.strip()
    if text[:1] in {"{", "["}:
        kind = "object" if text[0] == "{" else "array"
        return whole(text, repairs) if kind in allowed else None
    found = set[str]()
    value = scalar(text, found) or scalar(text.capitalize(), found)
    if value in {"true", "false", "null"}:
        if ("null" if value == "null" else "boolean") not in allowed:
            return None
        if repairs is not None:
            repairs |= found
        return value
    return _number(value, allowed) if value else None


def _number(value: str, allowed: frozenset[str]) -> str | None:
    if value.lstrip("-").isdigit():
        return value if {"integer", "number"} & allowed else None
    if "number" in allowed:
        return value
    return _integral(value) if "integer" in allowed else None


def _integral(value: str) -> str | None:
    """Return 3.0 and 1e3 as integers; None: it is none."""
    number = float(value)
    return str(int(number)) if number.is_integer() else None
