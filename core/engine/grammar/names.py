"""Names of properties that `propertyNames` allows. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.engine.grammar.automaton import Automaton, TooComplex, both, from_words, opposite
from core.engine.grammar.strings import automaton_of, texts_of

if TYPE_CHECKING:
    from core.engine.grammar.schema import Preparer


def names_of(schema: Any, preparer: Preparer) -> Automaton | None:
    """Return the names that a schema allows; None: all, or too many to list.

    Args:
        schema: what every name must be valid under.
        preparer: prepares it; notes the keyword if it is too complex.
    """
    try:
        return _names(preparer.prepare(schema), preparer)
    except TooComplex:
        preparer.unenforced.add("propertyNames")
        return None


def _names(ready: Any, preparer: Preparer) -> Automaton | None:
    if ready is False or ready.get("type", "string") != "string":
        return from_words([])
    if "$ref" in ready:
        preparer.unenforced.add("propertyNames")
        return None
    if "enum" in ready:
        return from_words([one for one in ready["enum"] if isinstance(one, str)])
    if "anyOf" in ready:
        return _any_of([_names(preparer.prepare(one), preparer) for one in ready["anyOf"]])
    return automaton_of(texts_of(ready, preparer.unenforced)) if ready else None


def _any_of(parts: list[Automaton | None]) -> Automaton | None:
    gone = opposite(from_words([]))
    for part in parts:
        if part is None:
            return None
        gone = both(gone, opposite(part))
    return opposite(gone)
