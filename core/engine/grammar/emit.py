"""A grammar written from a JSON Schema. Pure.

Every text of the grammar is JSON that is valid under the schema, but for the keywords that are
named as not enforced. White space between tokens is bounded, and strings hold UTF-8 only.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.engine.grammar import codepoints as cp
from core.engine.grammar.automaton import (
    Automaton,
    TooComplex,
    both,
    from_regex,
    from_words,
    opposite,
    without,
)
from core.engine.grammar.containers import Pairs, items, members
from core.engine.grammar.ebnf import (
    ESCAPE,
    JsonCharacters,
    Writer,
    characters,
    either,
    escape_rule,
    literal,
)
from core.engine.grammar.names import names_of
from core.engine.grammar.numbers import Limits, limits_of, spell
from core.engine.grammar.regex import full_match, is_plain
from core.engine.grammar.schema import Preparer
from core.engine.grammar.screen import NothingMatches, NotPossible
from core.engine.grammar.strings import ANYTHING, Texts, automaton_of, texts_of, whole

if TYPE_CHECKING:
    pass

WHITE = r'" "{0,2} | "\n" [ \t]{0,32}'
"""White space between the tokens of JSON: enough for any indentation, and not without end."""

_INTEGER = '"0" | "-"? [1-9] [0-9]{0,19}'
_NUMBER = '"-"? ("0" | [1-9] [0-9]{0,19}) ("." [0-9]{1,20})? ([eE] [+\\-]? [0-9]{1,2})?'
_BARE_KEY = re.compile(r"[A-Za-z_$][\w$.\-]{0,200}", re.ASCII)
_MOST_STRINGS = 64
"""String schemas that differ, of those that need an automaton."""
_MOST_PATTERNS = 3
_DEEPEST = 20
_PLAIN_STATES = 300
_PLAIN_WIDTH = 150


@dataclass(frozen=True, kw_only=True)
class Style:
    """How values are written."""

    any_whitespace: bool = True
    """Whether there may be white space between tokens."""
    strict: bool = True
    """Whether objects and tuples hold only what the schema names, where it does not say."""
    excludes: tuple[str, ...] = ()
    """Texts that no string may hold. Each begins with `<`."""
    quote: str = ""
    """What stands around strings, which then have no escapes and bare keys beside them; empty:
    JSON."""


class Emitter:
    """Writes the grammar of one schema.

    Attributes:
        writer: of the grammar.
        plain: whether all that was written is simple.
    """

    def __init__(self, root: Any, style: Style) -> None:
        """Take the schema in which references are looked up."""
        self.writer = Writer()
        self.plain = True
        self._style = style
        self._preparer = Preparer(root)
        self._refs: dict[str, str] = {}
        # References of references: written out later, so that no chain of them is too deep.
        self._depth = 0
        self._later: list[tuple[str, str, str]] = []
        self._known: dict[str, tuple[Texts, set[str]]] = {}
        self._spelled: dict[tuple[int, bool], tuple[Texts, str]] = {}
        self._automata = 0
        hidden = "<" if style.excludes else ""
        self._spell = JsonCharacters(hidden=hidden)
        self._raw_spell = lambda ranges: characters(cp.minus(ranges, cp.one_of(hidden)))
        self.white = self.writer.rule(WHITE) if style.any_whitespace else ""
        self.comma = f'{self.white} "," {self.white}'

    @property
    def unenforced(self) -> set[str]:
        """Keywords that are not enforced."""
        return self._preparer.unenforced

    def value(self, schema: Any, kinds: str = "all") -> str:
        """Return the values of a schema as an expression.

        Raises:
            NothingMatches: there are none.
        """
        ready = self._preparer.prepare(schema)
        if ready is False:
            raise NothingMatches("nothing matches the schema")
        if "$ref" in ready:
            return self._reference(ready["$ref"], kinds)
        if "anyOf" in ready:
            return self._choice(ready["anyOf"], kinds)
        if "enum" in ready:
            return self._listed(ready["enum"], kinds)
        if not ready:
            return self.writer.once(
                "other" if kinds == "others" else "value", self._anything[kinds]
            )
        if kinds == "others" and ready["type"] == "string":
            raise NothingMatches("nothing matches the schema")
        return self._typed(ready)

    def possible(self, schema: Any) -> str | None:
        """Return the values of a schema as an expression; None: there are none."""
        try:
            return self.value(schema)
        except NothingMatches:
            return None

    def _typed(self, ready: dict[str, Any]) -> str:
        kind = ready["type"]
        if kind in ("integer", "number"):
            return self._number(ready)
        if kind == "string":
            return self._quoted(self._texts(ready))
        if kind == "object":
            return self._object(ready)
        if kind == "array":
            return self._array(ready)
        return '("true" | "false")' if kind == "boolean" else '"null"'

    def _choice(self, branches: list[Any], kinds: str) -> str:
        found = []
        for branch in branches:
            try:
                found.append(self.value(branch, kinds))
            except NothingMatches:
                continue
        if not found:
            raise NothingMatches("nothing matches the schema")
        return either(list(dict.fromkeys(found)))

    def _reference(self, target: str, kinds: str) -> str:
        name = f"{kinds} {target}"
        if name not in self._refs:
            self._refs[name] = rule = self.writer.reserve()
            if self._depth >= _DEEPEST:
                self._later.append((rule, target, kinds))
                return rule
            self._depth += 1
            try:
                self.writer.define(rule, self.value(self._preparer.find(target), kinds))
            except NothingMatches:
                self.writer.define(rule, rule)
                raise
            finally:
                self._depth -= 1
        return self._refs[name]

    def finish(self) -> None:
        """Write the references that were left for later."""
        while self._later:
            rule, target, kinds = self._later.pop()
            try:
                self.writer.define(rule, self.value(self._preparer.find(target), kinds))
            except NothingMatches:
                self.writer.define(rule, rule)

    def _listed(self, values: list[Any], kinds: str) -> str:
        kept = [one for one in values if kinds == "all" or not isinstance(one, str)]
        if not kept:
            raise NothingMatches("nothing matches the schema")
        return either([literal(self._written(one)) for one in kept])

    def _written(self, value: Any) -> str:
        """Return a value as it is written, without white space."""
        if self._style.quote:
            return self._with_quotes(value)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.replace("<", "\\u003c") if self._style.excludes else text

    def _with_quotes(self, value: Any) -> str:
        if isinstance(value, dict):
            pairs = (f"{self._bare(name)}:{self._with_quotes(one)}" for name, one in value.items())
            return f"{{{','.join(pairs)}}}"
        if isinstance(value, list):
            return f"[{','.join(map(self._with_quotes, value))}]"
        if not isinstance(value, str):
            return json.dumps(value, allow_nan=False)
        quote = self._style.quote
        if any(mark in value for mark in (*self._style.excludes, quote)):
            raise NotPossible("a text of the schema holds a marker of the model's calls")
        return f"{quote}{value}{quote}"

    @staticmethod
    def _bare(name: str) -> str:
        return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)

    # Strings ----------------------------------------------------------------------------------

    def _quoted(self, texts: Texts) -> str:
        """Return strings as they stand in a value."""
        if self._style.quote:
            quote = literal(self._style.quote)
            return f"{quote} {self._text(texts, self._raw_spell, raw=True)} {quote}"
        if texts == ANYTHING:
            return self.writer.once("string", self._any_string)
        return f'"\\"" {self._text(texts, self._spell, raw=False)} "\\""'

    def _texts(self, ready: dict[str, Any]) -> Texts:
        """Return the texts of a string schema; only so many are worked out, the rest in part."""
        key = json.dumps(ready, sort_keys=True)
        if key not in self._known:
            simple = self._automata >= _MOST_STRINGS
            lost: set[str] = set()
            texts = texts_of(ready, lost, simple=simple)
            self._known[key] = texts, lost
            self._automata += isinstance(texts, Automaton) or bool(lost)
        texts, lost = self._known[key]
        self.unenforced.update(lost)
        return texts

    def _any_string(self) -> str:
        escape = f'"\\\\" {self.writer.once(ESCAPE, escape_rule)}'
        if self._style.excludes:
            inner = self.writer.automaton(without(self._style.excludes), JsonCharacters(), escape)
            return f'"\\"" {inner} "\\""'
        rest = self.writer.reserve()
        self.writer.define(rest, f'"\\"" | {self._spell(cp.ANY)} {rest} | {escape} {rest}')
        return f'"\\"" {rest}'

    def _free(self) -> str:
        """Return any raw text without what must not come in it."""
        marks = (*self._style.excludes, *([self._style.quote] if self._style.quote else ()))
        return self.writer.once("raw", lambda: self.writer.automaton(without(marks), characters))

    def _text(self, texts: Texts, spelled: Any, *, raw: bool) -> str:
        if raw and texts == ANYTHING:
            if not self._style.excludes and not self._style.quote:
                return f"{characters(cp.ANY)}*"
            return self._free()
        self.plain = self.plain and _is_plain(texts)
        if not isinstance(texts, Automaton):
            return self.writer.tree(texts, spelled)
        name = (id(texts), raw)
        if name not in self._spelled:  # the texts are kept, so that their id stays theirs
            self._spelled[name] = texts, self.writer.automaton(texts, spelled)
        return self._spelled[name][1]

    # Numbers ----------------------------------------------------------------------------------

    def _number(self, ready: dict[str, Any]) -> str:
        limits = limits_of(ready)
        if limits == Limits(whole=limits.whole):
            return self.writer.once(
                *(("integer", lambda: _INTEGER) if limits.whole else ("number", lambda: _NUMBER))
            )
        try:
            above, below = spell(limits)
        except TooComplex:
            self.unenforced.update(set(ready) - {"type"})
            return self._number({"type": ready["type"]})
        parts = []
        for sign, found in (("", above), ('"-" ', below)):
            if found is not None:
                self.plain = self.plain and len(found.edges) <= _PLAIN_STATES
                parts.append(sign + self.writer.automaton(found, characters))
        return either(parts)

    # Objects and arrays -----------------------------------------------------------------------

    def _array(self, ready: dict[str, Any]) -> str:
        first = [self.possible(one) for one in ready.get("prefixItems", [])]
        given = "items" in ready or not self._style.strict or "prefixItems" not in ready
        rest = self.possible(ready.get("items", True)) if given else None
        least = whole(ready.get("minItems", 0))
        most = whole(ready["maxItems"]) if "maxItems" in ready else None
        if None in first:
            first, rest = first[: first.index(None)], None
        inner = items(self.writer, [one for one in first if one], rest, (least, most), self.comma)
        return f'"[" {self.white} {inner} "]"'.replace("  ", " ")

    def _object(self, ready: dict[str, Any]) -> str:
        named = dict(ready.get("properties", {}))
        required = list(dict.fromkeys(ready.get("required", [])))
        if not all(isinstance(name, str) for name in required):
            raise NotPossible("the schema is malformed")
        patterns, rest = self._patterns(ready), self._rest(ready)
        for name in required:
            named.setdefault(name, rest if not patterns else self._for_name(name, patterns, rest))
        self.plain = self.plain and len(named) <= _PLAIN_WIDTH and not patterns
        allowed = names_of(ready.get("propertyNames", True), self._preparer)
        least = whole(ready.get("minProperties", 0))
        most = whole(ready["maxProperties"]) if "maxProperties" in ready else None
        pairs = Pairs(
            named=tuple(self._pairs(named, set(required), patterns, allowed)),
            others=self._others(set(named), patterns, rest, allowed),
            least=least,
            most=most,
        )
        inner = members(self.writer, pairs, self.comma, self.unenforced)
        return f'"{{" {self.white} {inner} "}}"'

    def _rest(self, ready: dict[str, Any]) -> Any:
        """Return the schema of properties that are not named."""
        if "additionalProperties" in ready:
            return ready["additionalProperties"]
        said = {"properties", "patternProperties", "propertyNames"} & ready.keys()
        free = said <= {"propertyNames"}
        return bool(free or not self._style.strict)

    def _patterns(self, ready: dict[str, Any]) -> list[tuple[Automaton, Any]]:
        """Return the patterns of names, each with its schema."""
        found = []
        given = list(ready.get("patternProperties", {}).items())
        if len(given) > _MOST_PATTERNS:
            self.unenforced.add("patternProperties")
        for pattern, schema in given[:_MOST_PATTERNS]:
            try:
                texts = automaton_of(texts_of({"pattern": pattern}, self.unenforced))
            except TooComplex:
                self.unenforced.add("patternProperties")
                continue
            found.append((texts, schema))
        return found

    @staticmethod
    def _for_name(name: str, patterns: list[tuple[Automaton, Any]], rest: Any) -> Any:
        return {} if any(texts.matches(name) for texts, _ in patterns) else rest

    def _pairs(
        self,
        named: dict[str, Any],
        required: set[str],
        patterns: list[tuple[Automaton, Any]],
        allowed: Automaton | None,
    ) -> list[tuple[str, bool]]:
        found = []
        for name, schema in named.items():
            also = [other for texts, other in patterns if texts.matches(name)]
            value = self.possible({"allOf": [schema, *also]} if also else schema)
            if value is not None and (allowed is None or allowed.matches(name)):
                found.append((self._pair(literal(self._key(name)), value), name in required))
            elif name in required:
                raise NothingMatches("nothing matches the schema")
        return found

    def _pair(self, name: str, value: str) -> str:
        return f'{name} {self.white} ":" {self.white} {value}'

    def _key(self, name: str) -> str:
        return self._bare(name) if self._style.quote else self._written(name)

    def _others(
        self,
        named: set[str],
        patterns: list[tuple[Automaton, Any]],
        rest: Any,
        allowed: Automaton | None,
    ) -> str | None:
        """Return a property that is not named; None: there is none."""
        found = []
        for chosen in range(2 ** len(patterns)):
            inside = [one for n, one in enumerate(patterns) if chosen >> n & 1]
            outside = [one for n, one in enumerate(patterns) if not chosen >> n & 1]
            schemas = [schema for _, schema in inside] or [rest]
            value = None if False in schemas else self.possible({"allOf": schemas})
            if value is None:
                continue
            key = self._others_key(named, inside, outside, allowed)
            if key is not None:
                found.append(self._pair(key, value))
        return either(found) if found else None

    def _others_key(
        self,
        named: set[str],
        inside: list[tuple[Automaton, Any]],
        outside: list[tuple[Automaton, Any]],
        allowed: Automaton | None,
    ) -> str | None:
        """Return the names that match some patterns and no others; None: none, or too many."""
        limits = [texts for texts, _ in inside]
        try:
            limits += [opposite(texts) for texts, _ in outside]
            return self._free_key(named, [*limits, *([allowed] if allowed else [])])
        except TooComplex:
            return None

    def _free_key(self, named: set[str], limits: list[Automaton]) -> str | None:
        if self._style.quote:
            limits = [from_regex(full_match("[A-Za-z_][A-Za-z0-9_]{0,40}")), *limits]
        if named:
            limits = [opposite(from_words(named)), *limits]
        if not limits:
            return self._quoted(ANYTHING)
        names = limits[0]
        for one in limits[1:]:
            names = both(names, one)
        if names.is_empty:
            return None
        if self._style.quote:
            return self.writer.automaton(names, self._raw_spell)
        return self._quoted(names)

    @property
    def _anything(self) -> Any:
        """Return what writes any value, by the kinds of it."""
        return {"all": self._any_value, "others": self._any_other}

    def _any_other(self) -> str:
        kinds = ("number", "boolean", "null", "array", "object")
        return " | ".join(self.value({"type": kind}) for kind in kinds)

    def _any_value(self) -> str:
        return f"{self._quoted(ANYTHING)} | {self._any_other()}"


def _is_plain(texts: Texts) -> bool:
    if isinstance(texts, Automaton):
        return len(texts.edges) <= _PLAIN_STATES
    return is_plain(texts)
