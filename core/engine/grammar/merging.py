"""Two JSON Schemas that must hold at once, written as one where that is possible. Pure."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Conflict(Exception):
    """Two schemas that cannot be written as one; its text is the keyword at fault."""


def intersect(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows what both allow.

    Raises:
        Conflict: that cannot be said in one.
    """
    _check_closed(one, other)
    _check_closed(other, one)
    both = dict(one)
    for keyword, value in other.items():
        both[keyword] = _join(keyword, both[keyword], value) if keyword in both else value
    return both


def _check_closed(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Refuse to add properties or items to a schema that says what all others are."""
    if "additionalProperties" in one or "unevaluatedProperties" in one:
        known = set(one.get("properties", ()))
        if "patternProperties" in other or set(other.get("properties", ())) - known:
            raise Conflict("additionalProperties")
    closed = one.get("items", one.get("unevaluatedItems"))
    if closed is not None and other.get("prefixItems", one.get("prefixItems")) != one.get(
        "prefixItems"
    ):
        raise Conflict("items")
    for keyword, evaluated in _UNEVALUATED.items():
        if keyword in one and any(name in other for name in evaluated):
            raise Conflict(keyword)


def _join(keyword: str, one: Any, other: Any) -> Any:
    if one == other or keyword == "format":
        return one
    if keyword not in _JOINS:
        raise Conflict(keyword)
    return _JOINS[keyword](one, other)


def _join_properties(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return one | {
        name: {"allOf": [one[name], schema]} if name in one else schema
        for name, schema in other.items()
    }


def _join_types(one: Any, other: Any) -> Any:
    ones = [one] if isinstance(one, str) else one
    others = [other] if isinstance(other, str) else other
    shared = [kind for kind in ones if kind in others]
    if any("number" in a and "integer" in b for a, b in ((ones, others), (others, ones))):
        shared.append("integer")
    if not shared:
        raise Conflict("type")
    return shared[0] if len(shared) == 1 else shared


# What each sees of the schema that it stands in, but not of one beside that.
_UNEVALUATED = {
    "unevaluatedProperties": ("additionalProperties", "properties", "patternProperties"),
    "unevaluatedItems": ("items", "prefixItems"),
}

# How the stricter of two values of a keyword is found.
_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(("$defs", "definitions"), operator.or_),
    "required": lambda one, other: list(dict.fromkeys([*one, *other])),
    "properties": _join_properties,
    "enum": lambda one, other: [value for value in one if value in other],
    "type": _join_types,
}
