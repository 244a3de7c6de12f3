"""Whether a value is valid under a schema, where that is easy to decide. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from core.engine.grammar.automaton import Automaton, from_regex
from core.engine.grammar.formats import find_format
from core.engine.grammar.regex import search
from core.engine.grammar.screen import NotPossible

_TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
}  # fmt: skip


def has_type(value: Any, kind: str) -> bool:
    """Return whether a value is of a type of JSON Schema."""
    if kind in ("number", "integer"):
        return is_number(value) and (kind == "number" or value == int(value))
    return isinstance(value, _TYPES.get(kind, ()))


def is_number(value: Any) -> bool:
    """Return whether a value is a number; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def key(value: Any) -> str:
    """Return a text that two values share if they are equal in JSON: 1 is 1.0, true is not 1."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def shared(values: list[Any], others: list[Any]) -> list[Any]:
    """Return the values that are among others too."""
    keys = set(map(key, others))
    return [value for value in values if key(value) in keys]


def breaks(value: Any, keyword: str, limit: Any) -> bool | None:
    """Return whether a value breaks a keyword of its schema; None: undecided."""
    check = _CHECKS.get(keyword)
    if check is None:
        return None
    kind, test = check
    if kind is not None and not has_type(value, kind):
        return False
    try:
        return test(value, limit)
    except NotPossible:
        return None


def _any(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda value, limits: any(
        test(value, one) for one in (limits if isinstance(limits, list) else [limits])
    )


def _off_pattern(value: Any, pattern: Any) -> bool:
    return not _texts(pattern).matches(value)


@lru_cache(maxsize=64)
def _texts(pattern: str) -> Automaton:
    return from_regex(search(pattern))


def _off_format(value: Any, name: Any) -> bool:
    tree = find_format(name)
    if tree is None:
        return False
    if not from_regex(tree).matches(value):
        raise NotPossible("the format may allow more than is known here")
    return False


def _off_step(value: Any, step: Any) -> bool:
    return bool(Decimal(str(value)) % Decimal(str(step)))


_CHECKS: dict[str, tuple[str | None, Callable[[Any, Any], bool]]] = {
    "type": (None, lambda value, kinds: not any(
        has_type(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)
    )),
    "minimum": ("number", lambda value, limit: bool(value < limit)),
    "exclusiveMinimum": ("number", lambda value, limit: bool(value <= limit)),
    "maximum": ("number", lambda value, limit: bool(value > limit)),
    "exclusiveMaximum": ("number", lambda value, limit: bool(value >= limit)),
    "multipleOf": ("number", _off_step),
    "minLength": ("string", lambda value, limit: bool(len(value) < limit)),
    "maxLength": ("string", lambda value, limit: bool(len(value) > limit)),
    "pattern": ("string", _any(_off_pattern)),
    "format": ("string", _any(_off_format)),
    "minItems": ("array", lambda value, limit: bool(len(value) < limit)),
    "maxItems": ("array", lambda value, limit: bool(len(value) > limit)),
    "minProperties": ("object", lambda value, limit: bool(len(value) < limit)),
    "maxProperties": ("object", lambda value, limit: bool(len(value) > limit)),
    "required": ("object", lambda value, names: any(name not in value for name in names)),
}  # fmt: skip
