"""A JSON Schema in the few forms that a grammar is written from, and what of it is lost. Pure.

References with keywords beside them, `allOf` and choices are written out; limits without a type get
the type that they apply to. A rewritten schema may allow less than the given one (only numbers
where the given one also allows everything that is not a number), never more; what would allow more
is named, so that the answer can say so.

Keywords: JSON Schema 2020-12, and the tuples and definitions of draft 7.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from core.engine.grammar.disjoint import are_disjoint
from core.engine.grammar.formats import NOT_ENFORCED
from core.engine.grammar.merging import Conflict, intersect
from core.engine.grammar.negation import without
from core.engine.grammar.screen import NothingMatches, NotPossible, check_size
from core.engine.grammar.values import breaks, key

_MOST_NODES = 20_000
_MOST_VARIANTS = 32
FAMILIES = {
    "object": ("properties", "required", "additionalProperties", "patternProperties",
               "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "unevaluatedItems"),
    "string": ("minLength", "maxLength", "pattern", "format", "except"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}  # fmt: skip
_APPLICATORS = ("$ref", "allOf", "anyOf", "oneOf")
_LATE = {"unevaluatedProperties": "additionalProperties", "unevaluatedItems": "items"}
_KNOWN = frozenset(
    {"type", "enum", "const", "format", "not", *_APPLICATORS}.union(*map(set, FAMILIES.values()))
) - {"except"}
# Assertions that no grammar here expresses.
_BEYOND = ("if", "contains", "minContains", "maxContains", "dependentRequired",
           "dependentSchemas", "dependencies", "$dynamicRef", "$recursiveRef")  # fmt: skip
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


class Preparer:
    """Makes the parts of one schema ready.

    Attributes:
        unenforced: keywords that are not enforced, as far as the parts were made ready.
    """

    def __init__(self, root: Any) -> None:
        """Take the schema in which references are looked up."""
        self.unenforced: set[str] = set()
        self._root = root
        self._nodes = 0
        # References that are being written out in place, to see circles.
        self._open: list[str] = []
        self._anchors: dict[str, Any] | None = None

    def prepare(self, schema: Any) -> Any:
        """Return a part of the schema, made ready one level deep; False: nothing matches it.

        The result is `{}` (anything), `{"$ref"}`, `{"anyOf"}`, `{"enum"}` or one type with its own
        keywords; the schemas in it are still to be made ready.

        Raises:
            NotPossible: the schema is malformed, or grows too large to compile.
        """
        try:
            return self._prepare(schema)
        except NothingMatches:
            return False
        except RecursionError as problem:
            raise NotPossible("the schema is nested too deeply") from problem
        # What is read here may be of any type where another one belongs.
        except (TypeError, AttributeError, LookupError, ValueError, ArithmeticError) as problem:
            raise NotPossible("the schema is malformed") from problem

    def find(self, target: Any) -> Any:
        """Return what a reference points to.

        Raises:
            NotPossible: it points to nothing.
        """
        try:
            return self._find(target)
        except Conflict as problem:
            raise NotPossible("the schema has a reference that points to nothing") from problem

    def _prepare(self, schema: Any) -> Any:
        self._count()
        if schema is True:
            return {}
        if schema is False:
            return False
        if not isinstance(schema, dict):
            raise NotPossible("the schema is malformed")
        return self._settle(self._without_unknown(schema))

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise NotPossible("the schema is too large")

    def _settle(self, schema: dict[str, Any]) -> Any:
        """Return a schema of known keywords, made ready."""
        if any(name in schema for name in _APPLICATORS):
            return self._applied(schema)
        for late, word in _LATE.items():
            if late in schema:
                schema = dict(schema)
                schema.setdefault(word, schema.pop(late))
        if "not" in schema:
            return self._settle_rest(without(schema, schema["not"], self.unenforced))
        return self._settle_rest(schema)

    def _settle_rest(self, schema: dict[str, Any]) -> Any:
        if "const" in schema or "enum" in schema:
            return self._values(schema)
        if "type" not in schema and (families := self._families(schema)):
            return self._by_family(schema, families)
        return self._typed(schema)

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
        if "format" in known:
            names = known["format"] if isinstance(known["format"], list) else [known["format"]]
            lost = [name for name in NOT_ENFORCED if name in names]
            self.unenforced.update(f"format {name}" for name in lost)
            if lost:
                del known["format"]
        return known

    # Applicators ------------------------------------------------------------------------------

    def _applied(self, schema: dict[str, Any]) -> Any:
        """Return a schema that refers to others: a bare reference, a choice, or written out."""
        if set(schema) == {"$ref"}:
            return self._reference(schema["$ref"])
        if len(schema) == 1:
            name, branches = next(iter(schema.items()))
            if name == "anyOf" or (name == "oneOf" and are_disjoint(branches)):
                return {"anyOf": list(branches)} if branches else False
        late = {name: schema[name] for name in _LATE if name in schema}
        beside = {k: v for k, v in schema.items() if k not in _APPLICATORS and k not in late}
        try:
            return self._settle_choice(self._folded(beside, schema), late)
        except Conflict as conflict:
            self.unenforced.add(str(conflict))
        self.unenforced.update(late)
        rest = beside or {name: schema[name] for name in _APPLICATORS if name in schema}
        if len(rest) == len(schema):
            rest = self._first_branch(rest)
        return self._prepare(rest)

    def _reference(self, target: Any) -> dict[str, Any]:
        if not isinstance(target, str) or not target.startswith("#"):
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
        if "anyOf" in schema:
            whole = intersect(whole, {"anyOf": schema["anyOf"]})
        if "oneOf" in schema:
            if not are_disjoint(schema["oneOf"]):
                self.unenforced.add("oneOf")
            whole = intersect(whole, {"anyOf": schema["oneOf"]})
        return whole

    def _settle_choice(self, whole: dict[str, Any], late: dict[str, Any]) -> Any:
        """Return a schema in which a choice is handed down into its branches.

        Args:
            whole: the schema.
            late: keywords that apply to everything that no other keyword names (`unevaluated...`).
        """
        if "anyOf" not in whole:
            return self._settle(self._without_unknown(whole) | late)
        rest = {k: v for k, v in whole.items() if k != "anyOf"}
        if not rest and not late:
            return {"anyOf": whole["anyOf"]}
        given = [self._branch(rest, branch) for branch in whole["anyOf"]]
        if not (some := [branch | late for branch in given if branch is not None]):
            return False
        return {"anyOf": some}

    def _branch(self, rest: dict[str, Any], branch: Any) -> dict[str, Any] | None:
        try:
            return intersect(rest, self._written_out(branch))
        except NothingMatches:
            return None

    def _written_out(self, schema: Any) -> dict[str, Any]:
        """Return a schema that is no reference and has no `allOf`, to be joined with another.

        Raises:
            Conflict: it is a reference to elsewhere, or holds itself.
            NothingMatches: nothing matches it.
        """
        if schema is True:
            return {}
        if schema is False:
            raise NothingMatches("nothing matches the schema")
        known: dict[str, Any] = self._without_unknown(schema)
        if known.keys().isdisjoint(("$ref", "allOf", "oneOf", *_LATE)):
            return known
        target = known.get("$ref", "")
        self._count()
        if target in self._open or len(self._open) > 50:
            raise Conflict("$ref")
        if target:
            self._open.append(target)
        try:
            return self._whole(known, target)
        finally:
            if target:
                self._open.pop()

    def _whole(self, known: dict[str, Any], target: str) -> dict[str, Any]:
        outside = (*_APPLICATORS, *_LATE)
        beside = {k: v for k, v in known.items() if k not in outside}
        inner = {k: v for k, v in known.items() if k in _APPLICATORS and k != "$ref"}
        whole = self._folded(beside, inner)
        if target:
            whole = intersect(whole, self._written_out(self._find(target)))
        for late, word in _LATE.items():
            if late in known and "anyOf" in whole:
                raise Conflict(late)
            if late in known:
                whole.setdefault(word, known[late])
        return whole

    def _find(self, target: Any) -> Any:
        """Return what a reference within the document points to.

        Raises:
            Conflict: it points elsewhere, or to nothing.
        """
        if not isinstance(target, str) or not target.startswith("#"):
            raise Conflict("$ref")
        if target != "#" and not target.startswith("#/"):
            return self._anchored(target[1:])
        found: Any = self._root
        for step in unquote(target).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdigit() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                raise Conflict("$ref")
        return found

    def _anchored(self, name: str) -> Any:
        if self._anchors is None:
            self._anchors = {}
            waiting = [self._root]
            while waiting:
                node = waiting.pop()
                if isinstance(node, dict):
                    if isinstance(node.get("$anchor"), str):
                        self._anchors.setdefault(node["$anchor"], node)
                    waiting.extend(node.values())
                elif isinstance(node, list):
                    waiting.extend(node)
        if name not in self._anchors:
            raise Conflict("$ref")
        return self._anchors[name]

    @staticmethod
    def _first_branch(schema: dict[str, Any]) -> Any:
        """Return the first schema that an applicator names: better than nothing."""
        name = next(iter(schema))
        if name == "$ref":
            return {}
        return schema[name][0] if schema[name] else {}

    # Values -----------------------------------------------------------------------------------

    def _values(self, schema: dict[str, Any]) -> Any:
        """Return a schema of listed values, without those that its other keywords forbid."""
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        if "const" in schema:
            values = [value for value in values if key(value) == key(schema["const"])]
        for keyword, limit in schema.items():
            if keyword in ("enum", "const"):
                continue
            broken = [breaks(value, keyword, limit) for value in values]
            if None in broken and keyword != "format":
                self.unenforced.add(keyword)
            values = [value for value, bad in zip(values, broken, strict=True) if not bad]
        return {"enum": values} if values else False

    @staticmethod
    def _families(schema: dict[str, Any]) -> list[str]:
        # `format` by itself is a remark, and says nothing of the type.
        present = set(schema) - {"format"}
        return [kind for kind, words in FAMILIES.items() if not present.isdisjoint(words)]

    def _by_family(self, schema: dict[str, Any], families: list[str]) -> dict[str, Any]:
        """Return a schema without `type` as one of the types that its keywords speak of."""
        ready = [
            {"type": kind} | {k: v for k, v in schema.items() if k in FAMILIES[kind]}
            for kind in families
        ]
        return self._typed(ready[0]) if len(ready) == 1 else {"anyOf": ready}

    def _typed(self, schema: dict[str, Any]) -> Any:
        """Return a schema of one or several types."""
        types = schema.get("type", [])
        types = [types] if isinstance(types, str) else list(types)
        if len(types) > 1:
            return {"anyOf": [schema | {"type": one} for one in types]}
        if not types:
            return {} if "type" not in schema else False
        if types[0] not in TYPES:
            raise NotPossible("the schema is malformed")
        family = "number" if types[0] == "integer" else types[0]
        own = FAMILIES.get(family, ())
        return {"type": types[0]} | {k: v for k, v in schema.items() if k in own}


def object_variants(schema: Any, root: Any) -> tuple[list[dict[str, Any]], frozenset[str]]:
    """Return the forms of an object, each one type with its keywords, and what is not enforced.

    Args:
        schema: a JSON Schema of objects.
        root: the schema in which references are looked up.

    Raises:
        NothingMatches: it has no form.
        NotPossible: it is malformed, or has too many.
    """
    check_size(root)
    preparer = Preparer(root)
    found: list[dict[str, Any]] = []
    waiting = [schema]
    for steps, one in enumerate(waiting):
        if steps > _MOST_VARIANTS:
            raise NotPossible("the schema has too many forms")
        ready = preparer.prepare(one)
        if not ready:
            continue
        if "$ref" in ready:
            waiting.append(preparer.find(ready["$ref"]))
        elif "anyOf" in ready:
            waiting.extend(ready["anyOf"])
        elif ready.get("type") == "object":
            found.append(_checked(ready))
        else:
            raise NotPossible("the schema lists whole objects")
    if not found:
        raise NothingMatches("nothing matches the schema")
    return found, frozenset(preparer.unenforced)


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an object schema whose properties are named by strings.

    Raises:
        NotPossible: they are not.
    """
    required = schema.get("required", [])
    named = isinstance(required, list) and all(isinstance(name, str) for name in required)
    if not named or not isinstance(schema.get("properties", {}), dict):
        raise NotPossible("the schema is malformed")
    return schema
