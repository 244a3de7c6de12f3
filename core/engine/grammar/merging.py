"""Two JSON Schemas that must hold at once, written as one where that is possible. Pure."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from core.engine.grammar.screen import NothingMatches
from core.engine.grammar.values import shared

if TYPE_CHECKING:
    from collections.abc import Callable


class Conflict(Exception):
    """Two schemas that cannot be written as one; its text is the keyword at fault."""


def intersect(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows what both allow.

    Raises:
        Conflict: that cannot be said in one.
        NothingMatches: nothing is allowed by both.
    """
    both = {**_join_objects(one, other), **_join_arrays(one, other)}
    for keyword, value in [*one.items(), *other.items()]:
        if keyword in _TOGETHER:
            continue
        both[keyword] = _join(keyword, both[keyword], value) if keyword in both else value
    return both


def _join_objects(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return what both say of properties: what one does not name is additional to it."""
    words = ("properties", "additionalProperties", "patternProperties")
    used = [side for side in (one, other) if not side.keys().isdisjoint(words)]
    if len(used) < 2:
        return {word: side[word] for side in used for word in words if word in side}
    if any("patternProperties" in side for side in used):
        return _join_patterns(one, other)
    return _joined_properties(one, other)


def _join_patterns(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return patterns and names of both, where neither says what the others are."""
    if "additionalProperties" in one or "additionalProperties" in other:
        raise Conflict("additionalProperties")
    return {
        word: _all_of(one[word], other[word])
        if word in one and word in other
        else one.get(word, other.get(word))
        for word in ("properties", "patternProperties")
        if word in one or word in other
    }


def _all_of(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return one | {
        name: {"allOf": [one[name], schema]} if name in one else schema
        for name, schema in other.items()
    }


def _joined_properties(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    rest = [side.get("additionalProperties", True) for side in (one, other)]
    named = [side.get("properties", {}) for side in (one, other)]
    names = dict.fromkeys([*named[0], *named[1]])
    properties = {
        name: _both(named[0].get(name, rest[0]), named[1].get(name, rest[1])) for name in names
    }
    joined: dict[str, Any] = {"properties": properties} if properties else {}
    if "additionalProperties" in one or "additionalProperties" in other:
        joined["additionalProperties"] = _both(*rest)
    return joined


def _join_arrays(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return what both say of items, place by place."""
    rest = [side.get("items", True) for side in (one, other)]
    first = [side.get("prefixItems", []) for side in (one, other)]
    length = max(map(len, first))
    joined: dict[str, Any] = {}
    if length:
        places = [
            side + [others] * (length - len(side)) for side, others in zip(first, rest, strict=True)
        ]
        joined["prefixItems"] = [_both(*pair) for pair in zip(*places, strict=True)]
    if "items" in one or "items" in other:
        joined["items"] = _both(*rest)
    return joined


def _both(one: Any, other: Any) -> Any:
    """Return what two schemas allow, written as one that is worked out later."""
    if False in (one, other):
        return False
    if one is True or one == other:
        return other
    return one if other is True else {"allOf": [one, other]}


def _join(keyword: str, one: Any, other: Any) -> Any:
    if one == other:
        return one
    if keyword not in _JOINS:
        raise Conflict(keyword)
    return _JOINS[keyword](one, other)


def _join_types(one: Any, other: Any) -> Any:
    ones = [one] if isinstance(one, str) else one
    others = [other] if isinstance(other, str) else other
    kinds = [kind for kind in ones if kind in others]
    if "integer" not in kinds and any(
        "number" in a and "integer" in b for a, b in ((ones, others), (others, ones))
    ):
        kinds.append("integer")
    if not kinds:
        raise NothingMatches("nothing matches the schema")
    return kinds[0] if len(kinds) == 1 else kinds


def _join_choices(one: Any, other: Any) -> Any:
    if len(one) * len(other) > _MOST_PAIRS:
        raise Conflict("anyOf")
    return [{"allOf": [ours, theirs]} for ours in one for theirs in other]


def _join_lists(one: Any, other: Any) -> Any:
    ones = one if isinstance(one, list) else [one]
    others = other if isinstance(other, list) else [other]
    return [*ones, *(each for each in others if each not in ones)]


def _join_steps(one: Any, other: Any) -> Any:
    """Return the least common multiple of two steps."""
    steps = [Fraction(str(step)) for step in (one, other)]
    common = Fraction(
        math.lcm(*(step.numerator for step in steps)),
        math.gcd(*(step.denominator for step in steps)),
    )
    return int(common) if common.denominator == 1 else float(common)


_MOST_PAIRS = 64
_TOGETHER = frozenset(
    {"properties", "additionalProperties", "patternProperties", "items", "prefixItems"}
)

# How the stricter of two values of a keyword is found.
_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    "required": lambda one, other: list(dict.fromkeys([*one, *other])),
    "enum": shared,
    "type": _join_types,
    "anyOf": _join_choices,
    **dict.fromkeys(("pattern", "format", "not"), _join_lists),
    "multipleOf": _join_steps,
    "propertyNames": _both,
}
