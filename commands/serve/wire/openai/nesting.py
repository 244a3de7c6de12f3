"""How deep a client's JSON may go where others walk it by recursion: templates, grammars."""

from __future__ import annotations

from typing import Any

from core.errors import BadRequest

MAX_NESTING = 64
"""Levels of objects and lists. People write a handful, generators of schemas a dozen."""


def check_nesting(value: Any, field: str) -> None:
    """See that a value is not nested too deeply.

    Raises:
        BadRequest: it is, in this field.
    """
    level, depth = [value], 0
    while level:
        if depth > MAX_NESTING:
            raise BadRequest(
                f"{field} is nested too deeply: {MAX_NESTING} levels are allowed.", field=field
            )
        level = [inner for one in level for inner in _inside(one)]
        depth += 1


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
