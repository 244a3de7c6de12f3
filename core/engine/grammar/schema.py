"""A JSON Schema made ready for xgrammar, and what of it a grammar cannot say. Pure.

xgrammar 0.2.9 silently ignores keywords that it does not know, keywords beside `enum`, `$ref` and
`anyOf`, limits where `type` is missing, and required properties that are not described. Here such
schemas are rewritten into ones that it does enforce. A rewritten schema may allow less than the
given one (a number where the given one also lets anything be that is no number), never more;
what would allow more is named, so that the answer can say so.

Keywords: JSON Schema 2020-12, and the tuples and definitions of draft 7.
"""

from __future__ import annotations

import json
import math
from typing import Any

from core.engine.grammar.merging import Conflict, intersect
from core.engine.grammar.regex import search
from core.engine.grammar.screen import NotPossible

_MOST_NODES = 20_000
_FAMILIES = {
    "object": ("properties", "required", "additionalProperties", "patternProperties",
               "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "unevaluatedItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}  # fmt: skip
_APPLICATORS = ("$ref", "allOf", "anyOf", "oneOf")
_KNOWN = frozenset(
    {"type", "enum", "const", "format", "$defs", "definitions", *_APPLICATORS}.union(
        *map(set, _FAMILIES.values())
    )
)
# Assertions that no grammar of xgrammar's expresses.
_BEYOND = ("not", "if", "contains", "minContains", "maxContains", "dependentRequired",
           "dependentSchemas", "dependencies", "$dynamicRef", "$recursiveRef")  # fmt: skip
_TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
}  # fmt: skip


def prepare_schema(
    schema: dict[str, Any] | bool, *, strict: bool = True
) -> tuple[dict[str, Any] | bool, set[str]]:
    """Return the schema for xgrammar, and the keywords that it does not enforce.

    Args:
        schema: a JSON Schema.
        strict: whether properties that it does not name are forbidden where it does not say.

    Raises:
        NotPossible: the schema is malformed, or grows beyond what we dare to compile.
    """
    work = _Work(schema, strict=strict)
    try:
        prepared = work.schema(schema)
    except RecursionError as problem:
        raise NotPossible("the schema is nested too deeply") from problem
    # What is read here may be of any type where another one belongs.
    except (TypeError, AttributeError, LookupError, ValueError, ArithmeticError) as problem:
        raise NotPossible("the schema is malformed") from problem
    return prepared, work.unenforced


class _Work:
    """One schema under work."""

    def __init__(self, root: dict[str, Any] | bool, *, strict: bool) -> None:
        self.unenforced: set[str] = set()
        self._strict = strict
        self._root = root
        self._nodes = 0
        # References that are being written out in place, to see circles.
        self._open: list[str] = []

    def schema(self, schema: Any) -> Any:
        """Return any schema, made ready."""
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise NotPossible("the schema is too large")
        if schema is True:
            return {}
        if schema is False:
            return False
        if not isinstance(schema, dict):
            raise NotPossible("the schema is malformed")
        return self._settle(self._without_unknown(schema))

    def _settle(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema of known keywords, made ready: one applicator or one kind of value."""
        definitions = {k: schema.pop(k) for k in ("$defs", "definitions") if k in schema}
        if any(name in schema for name in _APPLICATORS):
            ready = self._applied(schema)
        elif "const" in schema or "enum" in schema:
            ready = self._values(schema)
        elif "type" not in schema and (families := self._families(schema)):
            ready = self._by_family(schema, families)
        else:
            ready = self._typed(schema)
        for keyword, named in definitions.items():
            ready[keyword] = {name: self.schema(one) for name, one in named.items()}
        return ready

    def _without_unknown(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a copy without annotations, and without what cannot be enforced."""
        known = {k: v for k, v in schema.items() if k in _KNOWN}
        if isinstance(known.get("items"), list):  # a tuple, as drafts up to 7 write it
            known["prefixItems"] = known.pop("items")
            if "additionalItems" in schema:
                known["items"] = schema["additionalItems"]
        self.unenforced.update(k for k in _BEYOND if k in schema)
        if schema.get("uniqueItems"):
            self.unenforced.add("uniqueItems")
        return known

    # Applicators ------------------------------------------------------------------------------

    def _applied(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema that refers to others: a bare reference, a choice, or written out."""
        beside = {k: v for k, v in schema.items() if k not in _APPLICATORS}
        if set(schema) == {"$ref"}:
            return self._reference(schema["$ref"])
        if len(schema) == 1:
            name, branches = next(iter(schema.items()))
            if name == "anyOf" or (name == "oneOf" and are_disjoint(branches)):
                return {"anyOf": self._possible(branches)}
        try:
            return self._settle_choice(self._folded(beside, schema))
        except Conflict as conflict:
            self.unenforced.add(str(conflict))
        rest = beside or {name: schema[name] for name in _APPLICATORS if name in schema}
        if len(rest) == len(schema):
            rest = self._first_branch(rest)
        ready: dict[str, Any] = self.schema(rest)
        return ready

    def _possible(self, branches: list[Any]) -> list[Any]:
        """Return the branches of a choice that something can match; never none."""
        ready = [self.schema(branch) for branch in branches]
        if not (some := [branch for branch in ready if branch is not False]):
            raise NotPossible("nothing matches the schema")
        return some

    def _reference(self, target: Any) -> dict[str, Any]:
        if not isinstance(target, str) or not (target == "#" or target.startswith("#/")):
            self.unenforced.add("$ref")
            return {}
        return {"$ref": target}

    def _folded(self, beside: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
        """Return everything that must hold at once as one schema; a choice may be left in it.

        Raises:
            Conflict: that cannot be written as one.
        """
        whole = dict(beside)
        for part in schema.get("allOf", []):
            whole = intersect(whole, self._written_out(part))
        if "$ref" in schema:
            whole = intersect(whole, self._written_out({"$ref": schema["$ref"]}))
        for name in ("anyOf", "oneOf"):
            if name in schema:
                whole = intersect(whole, {name: schema[name]})
        return whole

    def _settle_choice(self, whole: dict[str, Any]) -> dict[str, Any]:
        """Return a schema with at most one choice in it, handed down into its branches."""
        choices = [name for name in ("anyOf", "oneOf") if name in whole]
        if not choices:
            return self._settle(self._without_unknown(whole))
        if len(choices) > 1:
            raise Conflict(choices[1])
        branches = whole[choices[0]]
        if choices[0] == "oneOf" and not are_disjoint(branches):
            self.unenforced.add("oneOf")
        rest = {k: v for k, v in whole.items() if k != choices[0]}
        if not rest:
            return {"anyOf": self._possible(branches)}
        given = [intersect(rest, self._written_out(branch)) for branch in branches]
        return {"anyOf": self._possible(given)}

    def _written_out(self, schema: Any) -> dict[str, Any]:
        """Return a schema that is no reference and has no `allOf`, to be joined with another.

        Raises:
            Conflict: it is a reference to elsewhere, or holds itself.
        """
        if schema is True:
            return {}
        if schema is False:
            raise Conflict("false")
        known: dict[str, Any] = self._without_unknown(schema)
        if "$ref" not in known and "allOf" not in known:
            return known
        target = known.get("$ref", "")
        self._nodes += 1
        if self._nodes > _MOST_NODES or target in self._open or len(self._open) > 50:
            raise Conflict("$ref")
        if target:
            self._open.append(target)
        try:
            beside = {k: v for k, v in known.items() if k not in _APPLICATORS}
            inner = {k: v for k, v in known.items() if k in _APPLICATORS and k != "$ref"}
            whole = self._folded(beside, inner)
            return intersect(whole, self._written_out(self._find(target))) if target else whole
        finally:
            if target:
                self._open.pop()

    def _find(self, target: Any) -> Any:
        """Return what a reference within the document points to.

        Raises:
            Conflict: it points elsewhere, or to nothing.
        """
        if not isinstance(target, str) or not (target == "#" or target.startswith("#/")):
            raise Conflict("$ref")
        found: Any = self._root
        for step in target.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdigit() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                raise Conflict("$ref")
        return found

    @staticmethod
    def _first_branch(schema: dict[str, Any]) -> Any:
        """Return the first schema that an applicator names: better than nothing."""
        name = next(iter(schema))
        if name == "$ref":
            return {}
        return schema[name][0] if schema[name] else {}

    # Values -----------------------------------------------------------------------------------

    def _values(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema of listed values, without those that its type forbids."""
        values = [schema["const"]] if "const" in schema else schema["enum"]
        if "const" in schema and "enum" in schema and schema["const"] not in schema["enum"]:
            raise NotPossible("nothing matches the schema")
        self.unenforced.update(set(schema) - {"const", "enum", "type", "format"})
        if "type" in schema:
            types = _listed(schema["type"])
            values = [value for value in values if any(_has_type(value, t) for t in types)]
        if not values:
            raise NotPossible("nothing matches the schema")
        return {"enum": values}

    @staticmethod
    def _families(schema: dict[str, Any]) -> list[str]:
        # `format` by itself is a remark, and says nothing of the type.
        present = set(schema) - {"format"}
        return [kind for kind, words in _FAMILIES.items() if not present.isdisjoint(words)]

    def _by_family(self, schema: dict[str, Any], families: list[str]) -> dict[str, Any]:
        """Return a schema without `type` as one of the types that its keywords speak of."""
        ready = [
            self._typed({"type": kind} | {k: v for k, v in schema.items() if k in _FAMILIES[kind]})
            for kind in families
        ]
        return ready[0] if len(ready) == 1 else {"anyOf": ready}

    def _typed(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema of one or several types."""
        types = _listed(schema.get("type", []))
        if len(types) > 1:
            return {"anyOf": [self._typed(schema | {"type": one}) for one in types]}
        if not types:
            return {}
        kind = types[0]
        family = "number" if kind == "integer" else kind
        own = {k: v for k, v in schema.items() if k in _FAMILIES.get(family, ())}
        make = {
            "object": self._object, "array": self._array, "string": self._string,
            "number": self._number,
        }.get(family)  # fmt: skip
        if make is None:
            if kind not in _TYPES:
                raise NotPossible("the schema is malformed")
            return {"type": kind}
        return make({"type": kind} | own)

    def _object(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "unevaluatedProperties" in schema:
            schema.setdefault("additionalProperties", schema.pop("unevaluatedProperties"))
        for name in ("minProperties", "maxProperties"):
            if name in schema:
                schema[name] = _whole(schema[name])
        named = dict(schema.get("properties", {}))
        rest = schema.get("additionalProperties", True)
        patterns = schema.get("patternProperties", {})
        for name in schema.get("required", []):
            if name not in named and rest is False and not patterns:
                raise NotPossible("nothing matches the schema")
            if name not in named:
                named[name] = {} if patterns else rest
        if patterns and (named or "additionalProperties" in schema or len(patterns) > 1):
            self.unenforced.add("patternProperties")
        # What a name stands for twice counts once, and a grammar cannot see that.
        if schema.get("minProperties", 0) > max(1, len(schema.get("required", []))):
            self.unenforced.add("minProperties")
        return self._described_object(schema, named, patterns)

    def _described_object(
        self, schema: dict[str, Any], named: dict[str, Any], patterns: dict[str, Any]
    ) -> dict[str, Any]:
        if named:
            schema["properties"] = {name: self.schema(one) for name, one in named.items()}
        else:
            schema.pop("properties", None)
        required = set(schema.get("required", []))
        for name in [n for n, one in schema.get("properties", {}).items() if one is False]:
            if name in required:
                raise NotPossible("nothing matches the schema")
            del schema["properties"][name]
        # A name that is forbidden, or may be escaped in another way, passes as any other one.
        hidden = any(one is False or json.dumps(name) != f'"{name}"' for name, one in named.items())
        if hidden and schema.get("additionalProperties", not self._strict) is not False:
            self.unenforced.add("properties")
        if patterns:
            schema["patternProperties"] = {
                search(pattern): self.schema(one)
                for pattern, one in patterns.items()
                if one is not False
            }
        if "propertyNames" in schema:
            schema["propertyNames"] = self.schema(schema["propertyNames"])
        if isinstance(schema.get("additionalProperties"), dict):
            schema["additionalProperties"] = self.schema(schema["additionalProperties"])
        limited = "minProperties" in schema or "maxProperties" in schema
        if limited and not named and not patterns and "propertyNames" not in schema:
            schema.setdefault("additionalProperties", True)
        return schema

    def _array(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "unevaluatedItems" in schema:
            schema.setdefault("items", schema.pop("unevaluatedItems"))
        if "items" not in schema and "prefixItems" not in schema:
            schema["items"] = {}
        for name in ("minItems", "maxItems"):
            if name in schema:
                schema[name] = _whole(schema[name])
        if "prefixItems" in schema:
            most = schema.get("maxItems", len(schema["prefixItems"]))
            first = [self.schema(one) for one in schema["prefixItems"]][:most]
            if False in first:
                self.unenforced.add("prefixItems")
                first = first[: first.index(False)]
            schema["prefixItems"] = first
            if not first:
                del schema["prefixItems"]
        if "items" in schema:
            schema["items"] = self.schema(schema["items"])
        return schema

    def _string(self, schema: dict[str, Any]) -> dict[str, Any]:
        for name in ("minLength", "maxLength"):
            if name in schema:
                schema[name] = _whole(schema[name])
        if "pattern" in schema:
            schema.pop("format", None)
        if "pattern" in schema or "format" in schema:
            for name in ("minLength", "maxLength"):
                if schema.pop(name, None) is not None:
                    self.unenforced.add(name)
        if "pattern" in schema:
            schema["pattern"] = f"^({search(schema['pattern'])})$"
        return schema

    def _number(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "multipleOf" in schema:
            step = schema["multipleOf"]
            if step == int(step):
                schema |= {"type": "integer", "multipleOf": int(step)}
            else:
                self.unenforced.add("multipleOf")
                del schema["multipleOf"]
        if schema["type"] == "integer":
            for name, rounded in (
                ("minimum", math.ceil), ("exclusiveMinimum", math.floor),
                ("maximum", math.floor), ("exclusiveMaximum", math.ceil),
            ):  # fmt: skip
                if name in schema:
                    schema[name] = rounded(schema[name])
        return schema


def are_disjoint(branches: list[Any]) -> bool:
    """Return whether no value can match two of these schemas, as far as their surface tells."""
    return all(_differ(one, other) for n, one in enumerate(branches) for other in branches[n + 1 :])


def _differ(one: Any, other: Any) -> bool:
    if False in (one, other):
        return True
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return False
    ours, theirs = _types(one), _types(other)
    if ours and theirs and not ours & theirs:
        return True
    values, others = _listed_values(one), _listed_values(other)
    if values is not None and others is not None:
        return all(value not in others for value in values)
    shared = set(one.get("required", ())) & set(other.get("required", ()))
    both_objects = ours == theirs == {"object"}
    return both_objects and any(
        _differ(one.get("properties", {}).get(name), other.get("properties", {}).get(name))
        for name in shared
    )


def _types(schema: dict[str, Any]) -> set[str]:
    """Return the types that a schema names; `integer` is a `number`."""
    return {"number" if t == "integer" else t for t in _listed(schema.get("type", []))}


def _listed_values(schema: dict[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values: list[Any] | None = schema.get("enum")
    return values


def _listed(types: Any) -> list[str]:
    return [types] if isinstance(types, str) else list(types)


def _has_type(value: Any, kind: str) -> bool:
    if kind in ("number", "integer"):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and (kind == "number" or value == int(value))
    return isinstance(value, _TYPES.get(kind, ()))


def _whole(number: Any) -> int:
    """Return a count, which JSON may write as `2.0`."""
    if isinstance(number, bool) or number != int(number) or not 0 <= number < 2**31:
        raise NotPossible("a limit of the schema is not a whole number")
    return int(number)
