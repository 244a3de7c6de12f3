"""What we dare to give to xgrammar. Pure.

Its compiler takes more than linear time, in C++ that cannot be interrupted: a few thousand
characters can be minutes. What is refused here is larger than any form that people write; what
is not plain is tried in a process of its own first (`trial`). Limits come from trying: a schema
of 1,000 nodes compiles in well under a second, one of 1,000 optional properties in seven.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_NODES = 20_000
_MOST_TEXT = 200_000
_MOST_DEPTH = 200
_PLAIN_NODES = 1_000
_PLAIN_TEXT = 20_000
_PLAIN_DEPTH = 64
_PLAIN_WIDTH = 150
_SURROGATE = re.compile("[\ud800-\udfff]")
# Keys whose values are patterns or grammars, or whose numbers multiply what a schema holds.
_NOT_PLAIN = frozenset({"patternProperties", "propertyNames", "grammar", "minProperties"})


class NotPossible(Exception):
    """A form that cannot be enforced; its text is a short reason. Stays within this package."""


def check_size(value: Any) -> None:
    """Refuse what is too large, too deep or no JSON.

    Args:
        value: anything that JSON can hold, or what a caller took for it.

    Raises:
        NotPossible: it is refused.
    """
    text = 0
    for nodes, (node, depth) in enumerate(_walk(value)):
        if isinstance(node, str):
            text += len(node)
            if _SURROGATE.search(node):
                raise NotPossible("it is not UTF-8 text")
        if nodes > _MOST_NODES or text > _MOST_TEXT:
            raise NotPossible("it is too large")
        if depth > _MOST_DEPTH:
            raise NotPossible("it is nested too deeply")


def is_plain(value: Any) -> bool:
    """Return whether a schema, or the format of calls, is so simple that it compiles quickly."""
    from core.engine.grammar.regex import is_plain_regex

    text = 0
    for nodes, (node, depth) in enumerate(_walk(value)):
        if isinstance(node, str):
            text += len(node)
        elif isinstance(node, dict):
            pattern = node.get("pattern", "")
            if not _NOT_PLAIN.isdisjoint(node) or len(node) > _PLAIN_WIDTH:
                return False
            if isinstance(pattern, str) and not is_plain_regex(pattern):
                return False
        if nodes > _PLAIN_NODES or text > _PLAIN_TEXT or depth > _PLAIN_DEPTH:
            return False
    return True


def _walk(value: Any) -> Iterator[tuple[Any, int]]:
    """Yield every value and key with its depth; never recurses, so that no depth can end it."""
    waiting = [(value, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        if isinstance(node, dict):
            waiting.extend((child, depth + 1) for pair in node.items() for child in pair)
        elif isinstance(node, list | tuple):
            waiting.extend((child, depth + 1) for child in node)
