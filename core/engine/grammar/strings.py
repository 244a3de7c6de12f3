"""The texts that a string schema allows, as a tree or an automaton. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from core.engine.grammar import codepoints as cp
from core.engine.grammar.automaton import (
    Automaton,
    TooComplex,
    both,
    from_regex,
    from_words,
    of_length,
    opposite,
)
from core.engine.grammar.formats import find_format
from core.engine.grammar.regex import Chars, Node, Repeat, Run, search
from core.engine.grammar.screen import NotPossible

_MOST_JOINED = 8
"""Patterns, formats and exceptions of one string."""
Texts: TypeAlias = Node | Automaton
ANYTHING = Repeat(node=Chars(ranges=cp.ANY), least=0, most=None)


def texts_of(schema: Mapping[str, Any], unenforced: set[str], *, simple: bool = False) -> Texts:
    """Return the texts of a schema of type string.

    Args:
        schema: made ready.
        unenforced: gets the keywords that would make it too complex.
        simple: whether everything that needs an automaton is too complex.

    Raises:
        NotPossible: a keyword is malformed, or a pattern cannot be expressed.
    """
    parts = _patterns(schema)
    least, most = whole(schema.get("minLength", 0)), _most(schema)
    gone = schema.get("except", [])
    if len(parts) <= 1 and not gone:
        tree = parts[0][1] if parts else ANYTHING
        counted = tree if (least, most) == (0, None) else _count(tree, least, most)
        if counted is not None:
            return counted
    if simple:
        lost = {word for word, _ in parts[1:]} | ({"not"} if gone else set())
        unenforced |= lost | {"minLength", "maxLength"} & schema.keys()
        return parts[0][1] if parts else ANYTHING
    return _joined(parts, gone, (least, most), unenforced)


def automaton_of(texts: Texts) -> Automaton:
    """Return texts as an automaton.

    Raises:
        TooComplex: it would have too many states.
    """
    return texts if isinstance(texts, Automaton) else from_regex(texts)


def whole(number: Any) -> int:
    """Return a count, which JSON may write as `2.0`.

    Raises:
        NotPossible: it is not one.
    """
    if isinstance(number, bool) or number != int(number) or not 0 <= number < 2**31:
        raise NotPossible("a limit of the schema is not a whole number")
    return int(number)


def _most(schema: Mapping[str, Any]) -> int | None:
    return whole(schema["maxLength"]) if "maxLength" in schema else None


def _patterns(schema: Mapping[str, Any]) -> list[tuple[str, Node]]:
    """Return each pattern and format with its keyword."""
    trees = [("pattern", _search(one)) for one in _listed(schema, "pattern")]
    formats = [("format", find_format(name)) for name in _listed(schema, "format")]
    return [*trees, *((word, tree) for word, tree in formats if tree is not None)]


def _search(pattern: Any) -> Node:
    if not isinstance(pattern, str):
        raise NotPossible("the schema is malformed")
    return search(pattern)


def _listed(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword, [])
    return value if isinstance(value, list) else [value]


def _count(tree: Node, least: int, most: int | None) -> Node | None:
    """Return a repeated character, repeated within limits; None: it is something else."""
    node = tree.parts[0] if isinstance(tree, Run) and len(tree.parts) == 1 else tree
    if not isinstance(node, Repeat) or not isinstance(node.node, Chars):
        return None
    least = max(least, node.least)
    limits = [limit for limit in (most, node.most) if limit is not None]
    most = min(limits) if limits else None
    if most is not None and most < least:
        return Chars(ranges=())
    return Repeat(node=node.node, least=least, most=most)


def _joined(
    parts: list[tuple[str, Node]],
    gone: list[dict[str, Any]],
    length: tuple[int, int | None],
    unenforced: set[str],
) -> Texts:
    """Return what all keywords allow; those that make it too complex are left out and named."""
    makers = [(word, partial(from_regex, tree)) for word, tree in parts]
    makers += [("not", partial(_allowed, negated)) for negated in gone]
    found: Automaton | None = None
    unenforced.update(word for word, _ in makers[_MOST_JOINED:])
    for word, make in makers[:_MOST_JOINED]:
        with _naming(word, unenforced):
            found = make() if found is None else both(found, make())
    if length != (0, None):
        word = "minLength" if length[1] is None else "maxLength"
        with _naming(word, unenforced):
            found = of_length(found or from_regex(ANYTHING), *length)
    if found is None:
        return parts[0][1] if parts else ANYTHING
    return found


@contextmanager
def _naming(word: str, unenforced: set[str]) -> Iterator[None]:
    try:
        yield
    except TooComplex:
        unenforced.add(word)


def _allowed(negated: dict[str, Any]) -> Automaton:
    return opposite(_forbidden(negated))


def _forbidden(negated: dict[str, Any]) -> Automaton:
    if "enum" in negated:
        return from_words(negated["enum"])
    return from_regex(search(negated["pattern"]))
