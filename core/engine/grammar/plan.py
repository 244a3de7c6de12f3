"""What is to be compiled, as plain values, or why it cannot be. Imports no arrays."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.engine.grammar.ebnf import Writer, characters, literal
from core.engine.grammar.emit import Style
from core.engine.grammar.gbnf import from_gbnf
from core.engine.grammar.raw import emit
from core.engine.grammar.regex import full_match, is_plain
from core.engine.grammar.screen import NothingMatches, NotPossible, check_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.engine.request import GrammarSpec

_MOST_CHOICES = 5000
# Where such a limit does not fit, xgrammar gives it up and says so on stderr.
_BUDGET = re.compile(r"\w\s{0,20}\[[^\]]{0,200}max_(?:chars|tokens)\s{0,20}=")


@dataclass(frozen=True, kw_only=True)
class NotEnforced:
    """A form that was asked for and is not enforced; the request goes on without it."""

    reason: str
    """Why, in a few words, as they follow `grammar not enforced: `. ASCII, one line."""
    hint: str | None = None
    """What the user can do about it, one sentence."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A form, ready to be compiled. Two that are equal compile to the same."""

    text: str = ""
    """A grammar with the rule `root`; empty: only `calls`."""
    json: bool = False
    """Whether its texts are JSON."""
    calls: str = ""
    """What tool calls look like: the format of an xgrammar structural tag as JSON; empty: none are
    wanted. Beside a form: either the calls or the form."""
    plain: bool = False
    """Whether it is so simple that compiling and matching it is known to be quick."""
    unenforced: tuple[str, ...] = ()
    """Keywords of the schema that the grammar cannot express, sorted; beside a form, those of the
    calls are left out."""


@dataclass(frozen=True, kw_only=True)
class _Source:
    """A grammar and what is known of it."""

    text: str = ""
    plain: bool = True
    unenforced: frozenset[str] = frozenset()


def make_plan(spec: GrammarSpec | None, calls: Mapping[str, Any] | None) -> Plan:
    """Return the plan of a form, of calls, or of either.

    Raises:
        TooLong: it is long and fails a cheap check.
        NotPossible: it is malformed or too large to compile.
    """
    source = _source(spec) if spec else _Source()
    written = _Calls(calls) if calls is not None else None
    return Plan(
        text=source.text,
        json=spec is not None and spec.kind in ("json", "json_schema"),
        calls=_to_json(written.format) if written else "",
        plain=source.plain and (written is None or written.plain),
        unenforced=tuple(
            sorted(source.unenforced if spec else written.unenforced if written else ())
        ),
    )


def _source(spec: GrammarSpec) -> _Source:
    if spec.kind == "json":
        return _schema({"type": ["object", "array"]}, spec)
    if spec.kind == "json_schema":
        return _schema(spec.source, spec)
    if spec.kind == "choice":
        return _Source(text=_choice(spec.source))
    if not isinstance(spec.source, str) or not spec.source.strip():
        raise NotPossible(f"the {'regex' if spec.kind == 'regex' else 'grammar'} is empty")
    check_size(spec.source)
    if spec.kind == "ebnf":
        grammar = from_gbnf(spec.source)
        check_size(grammar)
        if _BUDGET.search(grammar):
            raise NotPossible("the grammar limits a rule by max_chars or max_tokens")
        return _Source(text=grammar, plain=False)
    tree = full_match(spec.source)
    writer = Writer()
    return _Source(text=writer.grammar(writer.tree(tree, characters)), plain=is_plain(tree))


def _schema(schema: Any, spec: GrammarSpec) -> _Source:
    if not isinstance(schema, dict | bool):
        raise NotPossible("the schema is not an object")
    check_size(schema)
    _to_json(schema)
    made = emit(schema, Style(any_whitespace=spec.any_whitespace, strict=spec.strict))
    return _Source(text=made.text, plain=made.plain, unenforced=made.unenforced)


class _Calls:
    """The format of calls with grammars in place of schemas.

    Attributes:
        format: it.
        plain: whether all grammars in it are plain.
        unenforced: keywords of its schemas that they do not express.
    """

    def __init__(self, calls: Mapping[str, Any]) -> None:
        self.plain = True
        self.unenforced: set[str] = set()
        self._seen: set[int] = set()
        self.format = self._written(calls)

    def _written(self, node: Any) -> Any:
        """Return a format; what nothing matches is left out of choices.

        Raises:
            NotPossible: a schema in it cannot be expressed.
        """
        kind = node["type"]
        if kind == "json_schema":
            return self._grammar(node)
        if kind == "or":
            return {**node, "elements": self._possible(node["elements"])}
        self.unenforced.update(node.get("unenforced", ()))
        made = {word: value for word, value in node.items() if word != "unenforced"}
        for word in ("elements", "tags"):
            if word in made:
                made[word] = [self._written(one) for one in made[word]]
        if "content" in made:
            made["content"] = self._written(made["content"])
        return made

    def _possible(self, elements: Any) -> list[Any]:
        found = []
        for one in elements:
            try:
                found.append(self._written(one))
            except NothingMatches:
                continue
        if not found:
            raise NothingMatches("nothing matches the schema")
        return found

    def _grammar(self, node: Mapping[str, Any]) -> dict[str, str]:
        if id(node["root"]) not in self._seen:  # the parts of a tool share their root
            check_size(node["root"])
            self._seen.add(id(node["root"]))
        style = Style(excludes=tuple(node["excludes"]), quote=node["quote"])
        made = emit(
            node["json_schema"], style, root=node["root"], kinds=node["kinds"], avoid=node["avoid"]
        )
        self.plain = self.plain and made.plain
        self.unenforced |= made.unenforced
        return {"type": "grammar", "grammar": made.text}


def _choice(choices: Any) -> str:
    """Return a grammar of exactly these texts."""
    if not isinstance(choices, list | tuple) or not choices:
        raise NotPossible("there are no choices")
    if not all(isinstance(choice, str) and choice for choice in choices):
        raise NotPossible("a choice is empty or no text")
    if len(choices) > _MOST_CHOICES:
        raise NotPossible(f"more than {_MOST_CHOICES:,} choices")
    check_size(list(choices))
    return "root ::= " + " | ".join(literal(choice) for choice in dict.fromkeys(choices))


def _to_json(value: Any) -> str:
    """Return JSON, or raise NotPossible: a number that JSON does not know, a key of no text."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (ValueError, TypeError) as problem:
        raise NotPossible("the schema is not JSON") from problem
