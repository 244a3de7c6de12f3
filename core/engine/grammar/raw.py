"""Strings as raw text, and the grammar of a whole schema. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.engine.grammar.automaton import Automaton, both, from_regex, opposite, without
from core.engine.grammar.ebnf import characters, either, literal
from core.engine.grammar.emit import Emitter, Style
from core.engine.grammar.regex import full_match
from core.engine.grammar.screen import NothingMatches, NotPossible
from core.engine.grammar.strings import ANYTHING, Texts, automaton_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLAIN_TEXT = 60_000


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """A grammar."""

    text: str
    """EBNF with the rule `root`."""
    unenforced: frozenset[str]
    """Keywords of the schema that it does not express."""
    plain: bool
    """Whether it is so simple that compiling and following it is known to be quick."""


def emit(
    schema: Any, style: Style, *, root: Any = None, kinds: str = "all", avoid: Sequence[str] = ()
) -> Emitted:
    """Return the grammar of a schema.

    Args:
        schema: a JSON Schema.
        style: how values are written.
        root: the schema in which references are looked up; None: itself.
        kinds: `all`; `text`: its strings alone, as raw text; `others`: all but its strings.
        avoid: regular expressions; no raw text matches one as a whole.

    Raises:
        NotPossible: it is malformed, too large, or cannot be expressed.
    """
    emitter = RawEmitter(schema if root is None else root, style)
    try:
        body = emitter.raw(schema, avoid) if kinds == "text" else emitter.value(schema, kinds)
        emitter.finish()
    except RecursionError as problem:
        raise NotPossible("the schema is nested too deeply") from problem
    except (TypeError, AttributeError, LookupError, ValueError, ArithmeticError) as problem:
        raise NotPossible("the schema is malformed") from problem
    text = emitter.writer.grammar(body)
    return Emitted(
        text=text,
        unenforced=frozenset(emitter.unenforced),
        plain=emitter.plain and len(text) <= _PLAIN_TEXT,
    )


class RawEmitter(Emitter):
    """Writes strings as raw text too."""

    def raw(self, schema: Any, avoid: Sequence[str]) -> str:
        """Return the strings of a schema as raw text, as an expression.

        Args:
            schema: its other values are left out.
            avoid: regular expressions; no text matches one as a whole.

        Raises:
            NothingMatches: there are none.
        """
        gone = [opposite(from_regex(full_match(pattern))) for pattern in avoid]
        found = self._raw_parts(schema, gone, set())
        if not found:
            raise NothingMatches("nothing matches the schema")
        return either(list(dict.fromkeys(found)))

    def _raw_parts(self, schema: Any, gone: list[Automaton], seen: set[str]) -> list[str]:
        ready = self._preparer.prepare(schema)
        if ready is False:
            return []
        if "$ref" in ready:
            target = ready["$ref"]
            parts = [] if target in seen else [self._preparer.find(target)]
            seen.add(target)
        else:
            parts = ready.get("anyOf", [])
        if "anyOf" in ready or "$ref" in ready:
            return [one for part in parts for one in self._raw_parts(part, gone, seen)]
        if "enum" in ready:
            return [literal(one) for one in ready["enum"] if self._is_raw(one, gone)]
        if ready.get("type", "string") != "string":
            return []
        return self._raw_texts(self._texts(ready) if ready else ANYTHING, gone)

    def _is_raw(self, value: Any, gone: list[Automaton]) -> bool:
        return (
            isinstance(value, str)
            and not any(mark in value for mark in self._style.excludes)
            and all(texts.matches(value) for texts in gone)
        )

    def _raw_texts(self, texts: Texts, gone: list[Automaton]) -> list[str]:
        if gone:
            marks = self._style.excludes
            texts = without(marks) if texts == ANYTHING and marks else automaton_of(texts)
            for one in gone:
                texts = both(texts, one)
            if marks:
                texts = both(texts, without(marks))
        try:
            if isinstance(texts, Automaton):
                return [self._text(texts, characters, raw=True)]
            return [self._text(texts, self._raw_spell, raw=True)]
        except NothingMatches:
            return []
