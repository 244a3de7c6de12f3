"""Whether schemas exclude each other, judged by their outermost keywords. Pure."""

from __future__ import annotations

from typing import Any

from core.engine.grammar.values import shared as in_both

_MOST_BRANCHES = 100
"""Every two of them are compared."""


def are_disjoint(branches: list[Any]) -> bool:
    """Return whether no value can match two of these, judged by their outermost keywords."""
    if len(branches) > _MOST_BRANCHES:
        return False
    return all(_differ(one, other) for n, one in enumerate(branches) for other in branches[n + 1 :])


def _differ(one: Any, other: Any) -> bool:
    if False in (one, other):
        return True
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return False
    ours, theirs = _types(one), _types(other)
    if ours and theirs and not ours & theirs:
        return True
    values, others = _values(one), _values(other)
    if values is not None and others is not None:
        return not in_both(values, others)
    shared = set(one.get("required", ())) & set(other.get("required", ()))
    both_objects = ours == theirs == {"object"}
    return both_objects and any(
        _differ(one.get("properties", {}).get(name), other.get("properties", {}).get(name))
        for name in shared
    )


def _types(schema: dict[str, Any]) -> set[str]:
    """Return the types that a schema names; `integer` is a `number`."""
    return {"number" if t == "integer" else t for t in _listed(schema.get("type", []))}


def _values(schema: dict[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values: list[Any] | None = schema.get("enum")
    return values


def _listed(types: Any) -> list[str]:
    return [types] if isinstance(types, str) else list(types)
