"""`not`, as far as a schema can be written without it. Pure."""

from __future__ import annotations

from typing import Any

from core.engine.grammar.screen import NothingMatches
from core.engine.grammar.values import key, shared

_ALL = ("object", "array", "string", "number", "boolean", "null")


def without(schema: dict[str, Any], negated: Any, unenforced: set[str]) -> dict[str, Any]:
    """Return a schema that allows what another one allows and what `not` does not forbid.

    Args:
        schema: it may have `not` itself.
        negated: the value of `not`, or several of them in a list.
        unenforced: gets `not` if that cannot be written.
    """
    rest = {word: value for word, value in schema.items() if word != "not"}
    for one in negated if isinstance(negated, list) else [negated]:
        found = _without(rest, one)
        if found is None:
            unenforced.add("not")
        else:
            rest = found
    return rest


def _without(schema: dict[str, Any], negated: Any) -> dict[str, Any] | None:
    if negated is False:
        return schema
    if negated is True or negated == {}:
        raise NothingMatches("nothing matches the schema")
    words = set(negated)
    if words <= {"const", "enum", "type"} and len(words) == 1:
        if words == {"type"}:
            return _without_types(schema, negated["type"])
        return _without_values(schema, negated.get("enum", [negated.get("const")]))
    if words in ({"required"}, {"required", "type"}) and schema.get("type") == "object":
        return _without_property(schema, negated["required"])
    if schema.get("type") == "string" and words <= {"type", "pattern"} and "pattern" in words:
        return schema | {"except": [*schema.get("except", []), {"pattern": negated["pattern"]}]}
    return None


def _without_types(schema: dict[str, Any], types: Any) -> dict[str, Any] | None:
    gone = {types} if isinstance(types, str) else set(types)
    allowed = schema.get("type", _ALL)
    allowed = [allowed] if isinstance(allowed, str) else list(allowed)
    if "number" in gone:
        gone.add("integer")
    elif "integer" in gone and "number" in allowed:
        return None
    if not (kept := [kind for kind in allowed if kind not in gone]):
        raise NothingMatches("nothing matches the schema")
    return schema | {"type": kept[0] if len(kept) == 1 else kept}


def _without_values(schema: dict[str, Any], values: list[Any]) -> dict[str, Any] | None:
    if "enum" in schema or "const" in schema:
        given = schema["enum"] if "enum" in schema else [schema["const"]]
        gone = set(map(key, values))
        kept = [value for value in given if key(value) not in gone]
        if not kept:
            raise NothingMatches("nothing matches the schema")
        return schema | ({"enum": kept} if "enum" in schema else {})
    kind = schema.get("type")
    if kind == "boolean":
        return {"enum": [one for one in (False, True) if not shared([one], values)]}
    if kind == "string":
        texts = [value for value in values if isinstance(value, str)]
        return schema | {"except": [*schema.get("except", []), {"enum": texts}]}
    return None


def _without_property(schema: dict[str, Any], names: Any) -> dict[str, Any] | None:
    if len(names) != 1:
        return None
    return schema | {"properties": {**schema.get("properties", {}), names[0]: False}}
