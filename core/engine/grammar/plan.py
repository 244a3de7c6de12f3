"""What is to be compiled, as plain values, or why it cannot be. Imports no arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.engine.grammar.gbnf import from_gbnf
from core.engine.grammar.regex import full_match, is_plain_regex
from core.engine.grammar.schema import prepare_schema
from core.engine.grammar.screen import NotPossible, check_size, is_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.engine.request import GrammarKind, GrammarSpec

_MOST_CHOICES = 5000


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

    kind: GrammarKind | None
    """None: only `calls`."""
    text: str = ""
    """`json_schema`: the schema as JSON; `ebnf`, `choice`: a grammar; `regex`: a pattern that the
    whole text must match, without anchors."""
    any_whitespace: bool = True
    """Whether JSON may have white space between its tokens."""
    strict: bool = True
    """Whether JSON may hold only what the schema names, where it does not say."""
    calls: str = ""
    """What tool calls look like: the format of an xgrammar structural tag as JSON; empty: none are
    wanted. Beside a form: either the calls or the form."""
    plain: bool = False
    """Whether it is so simple that compiling and matching it is known to be quick."""
    unenforced: tuple[str, ...] = ()
    """Keywords of the schema that the grammar cannot express, sorted."""


def make_plan(spec: GrammarSpec | None, calls: Mapping[str, Any] | None) -> Plan:
    """Return the plan of a form, of calls, or of either.

    Raises:
        NotPossible: it is malformed or larger than we dare to compile.
    """
    text, plain, unenforced = _source(spec) if spec else ("", True, ())
    if calls is not None:
        check_size(calls)
        plain = plain and is_plain(calls)
    return Plan(
        kind=spec.kind if spec else None,
        text=text,
        any_whitespace=spec.any_whitespace if spec else True,
        strict=spec.strict if spec else True,
        calls=_to_json(calls) if calls is not None else "",
        plain=plain,
        unenforced=unenforced,
    )


def _source(spec: GrammarSpec) -> tuple[str, bool, tuple[str, ...]]:
    """Return the text to compile, whether it is plain, and what of it is not enforced."""
    if spec.kind == "json":
        return "", True, ()
    if spec.kind == "json_schema":
        return _schema(spec.source, strict=spec.strict)
    if spec.kind == "choice":
        return _choice(spec.source), True, ()
    if not isinstance(spec.source, str) or not spec.source.strip():
        raise NotPossible(f"the {'regex' if spec.kind == 'regex' else 'grammar'} is empty")
    check_size(spec.source)
    if spec.kind == "regex":
        pattern = full_match(spec.source)
        return pattern, is_plain_regex(pattern), ()
    grammar = from_gbnf(spec.source)
    check_size(grammar)
    return grammar, False, ()


def _schema(schema: Any, *, strict: bool) -> tuple[str, bool, tuple[str, ...]]:
    if not isinstance(schema, dict | bool):
        raise NotPossible("the schema is not an object")
    check_size(schema)
    prepared, unenforced = prepare_schema(schema, strict=strict)
    return _to_json(prepared), is_plain(prepared), tuple(sorted(unenforced))


def _choice(choices: Any) -> str:
    """Return a grammar of exactly these texts."""
    if not isinstance(choices, list | tuple) or not choices:
        raise NotPossible("there are no choices")
    if not all(isinstance(choice, str) and choice for choice in choices):
        raise NotPossible("a choice is empty or no text")
    if len(choices) > _MOST_CHOICES:
        raise NotPossible(f"more than {_MOST_CHOICES:,} choices")
    check_size(list(choices))
    return "root ::= " + " | ".join(_literal(choice) for choice in dict.fromkeys(choices))


def _literal(text: str) -> str:
    r"""Return a text as EBNF writes it: JSON's escapes, but `\U` for what lies beyond 16 bits."""
    return '"' + "".join(_escape(character) for character in text) + '"'


def _escape(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return "\\" + character
    if 0x20 <= code < 0x7F:
        return character
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _to_json(value: Any) -> str:
    """Return JSON, or raise NotPossible: a number that JSON does not know, a key of no text."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (ValueError, TypeError) as problem:
        raise NotPossible("the schema is not JSON") from problem
