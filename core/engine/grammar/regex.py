r"""What we must know of a regular expression before xgrammar compiles it. Pure.

xgrammar matches whole texts, and ignores anchors that stand where they cannot match; here they are
taken off where they mean nothing, and refused elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from core.engine.grammar.screen import NotPossible

# An escape, a character class (`]` may be its first member), or any other character.
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)


def full_match(pattern: str) -> str:
    """Return a pattern that the whole text must match, without anchors.

    Raises:
        NotPossible: an anchor stands within it.
    """
    return "|".join(body for body, _starts, _ends in _alternatives(pattern))


def search(pattern: str) -> str:
    """Return the same for a pattern that may match anywhere in a text, as JSON Schema means it.

    Raises:
        NotPossible: an anchor stands within it.
    """
    parts = [
        ("" if starts else ".*") + (f"({body})" if body else "") + ("" if ends else ".*")
        for body, starts, ends in _alternatives(pattern)
    ]
    return "|".join(parts)


def _alternatives(pattern: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield each alternative of the outermost level, and whether it is anchored at either end."""
    for alternative in _split(pattern):
        starts = alternative[:1] == ["^"]
        ends = alternative[-1:] == ["$"]
        inner = alternative[starts : len(alternative) - ends]
        if any(piece in ("^", "$") for piece in inner):
            raise NotPossible("the regex has an anchor that is not at an end of it")
        yield "".join(inner), starts, ends


def _split(pattern: str) -> list[list[str]]:
    """Return the pieces of each alternative of the outermost level."""
    parts: list[list[str]] = [[]]
    depth = 0
    for piece in pieces(pattern):
        depth += (piece == "(") - (piece == ")")
        if piece == "|" and depth == 0:
            parts.append([])
        else:
            parts[-1].append(piece)
    return parts


def pieces(pattern: str) -> list[str]:
    """Return escapes, character classes and other characters, in order."""
    return _PIECE.findall(pattern)


def is_plain_regex(pattern: str) -> bool:
    """Return whether a pattern is short, and repeats nothing that repeats: quick to match."""
    found = pieces(pattern)
    if len(found) > 300 or sum(piece in _QUANTIFIERS for piece in found) > 12:
        return False
    return not _repeats_within_repeats(found)


_QUANTIFIERS = frozenset("*+?{")


def _repeats_within_repeats(found: list[str]) -> bool:
    # For each open group: whether something in it repeats or may be left out.
    groups = [False]
    for piece, following in pairwise([*found, ""]):
        if piece == "(":
            groups.append(False)
        elif piece == ")" and len(groups) > 1:
            repeats = groups.pop()
            if repeats and following in _QUANTIFIERS:
                return True
            groups[-1] |= repeats
        elif piece in _QUANTIFIERS or piece == "|":
            groups[-1] = True
    return False
