"""What is small enough for xgrammar. Pure.

Its compiler takes more than linear time, in C++ that cannot be interrupted: a few thousand
characters can be minutes. What is refused here is larger than any form that people write; what
is not plain is tried in a process of its own first (`trial`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_NODES = 20_000
_MOST_TEXT = 200_000
_MOST_DEPTH = 200
_LONG = 8 * 2**10
_SURROGATE = re.compile("[\ud800-\udfff]")


class NotPossible(Exception):
    """A form that cannot be enforced; its text is a short reason. Stays within this package."""


class TooLong(NotPossible):
    """A form that is long and fails a cheap check: the request is refused, and its field named.

    Attributes:
        text: the part of the form that fails.
    """

    def __init__(self, reason: str, text: Any) -> None:
        """Take the message and the part that fails."""
        super().__init__(reason)
        self.text = text


class NothingMatches(NotPossible):
    """A form that no text has."""


def check_long(value: Any, problem: NotPossible) -> None:
    """Raise `TooLong` for a problem of a text of more than 8 KiB."""
    if isinstance(value, str) and len(value.encode(errors="replace")) > _LONG:
        raise TooLong(str(problem), value) from problem


def place_of(value: Any, part: Any) -> str:
    """Return where in a form a part of it stands, as in `.properties.x.pattern`; "": nowhere."""
    waiting = [(value, "")]
    while waiting:
        node, place = waiting.pop()
        if node is part:
            return place
        if isinstance(node, dict):
            waiting.extend((child, f"{place}.{key}") for key, child in node.items())
        elif isinstance(node, list | tuple):
            waiting.extend((child, f"{place}[{n}]") for n, child in enumerate(node))
    return ""


def check_size(value: Any) -> None:
    """Refuse what is too large, too deep or no JSON.

    Args:
        value: anything that JSON can hold, or what a caller took for it.

    Raises:
        TooLong: it is too large.
        NotPossible: it is nested too deeply, or is not a string.
    """
    text = 0
    for nodes, (node, depth) in enumerate(_walk(value)):
        if isinstance(node, str):
            text += len(node)
            if _SURROGATE.search(node):
                raise NotPossible("it is not UTF-8 text")
        if nodes > _MOST_NODES or text > _MOST_TEXT:
            raise TooLong("it is too large", value)
        if depth > _MOST_DEPTH:
            raise NotPossible("it is nested too deeply")


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
