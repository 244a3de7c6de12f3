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


# What a dot is no match for, in Python and in JavaScript; xgrammar lets it match anything.
_NO_LINE_END = r"[^\n\r\u2028\u2029]"
# Letters that xgrammar knows behind a backslash, or refuses by itself. It takes any other letter
# for the letter.
_ESCAPES = frozenset("bBcdDfknpPrsStuvwWx")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def full_match(pattern: str) -> str:
    """Return a pattern that the whole text must match, without anchors.

    Raises:
        NotPossible: an anchor stands within it, or something that xgrammar passes over.
    """
    bodies = (body for body, _starts, _ends in _alternatives(pattern))
    return "|".join(
        "".join(_NO_LINE_END if piece == "." else piece for piece in pieces(body))
        for body in bodies
    )


def search(pattern: str) -> str:
    """Return the same for a pattern that may match anywhere in a text, as JSON Schema means it.

    Raises:
        NotPossible: an anchor stands within it, or something that xgrammar passes over.
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
    found = pieces(pattern)
    _refuse_unknown(found)
    for piece in found:
        depth += (piece == "(") - (piece == ")")
        if piece == "|" and depth == 0:
            parts.append([])
        else:
            parts[-1].append(piece)
    return parts


def _refuse_unknown(found: list[str]) -> None:
    """Refuse what xgrammar ignores with no more than a word on stderr."""
    for position, piece in enumerate(found):
        if piece == "(" and _LOOKS.match("".join(found[position + 1 : position + 4])):
            raise NotPossible("the regex looks ahead or behind")
        if piece.startswith(("\\", "[")):
            letters = [one for one in _ESCAPED.findall(piece) if one.isalpha()]
            if unknown := next((one for one in letters if one not in _ESCAPES), None):
                name = f"\\{unknown}" if unknown.isascii() else "an escaped letter"
                raise NotPossible(f"the regex has {name}, which is not known")


def pieces(pattern: str) -> list[str]:
    """Return escapes, character classes and other characters, in order."""
    return _PIECE.findall(pattern)


def is_plain_regex(pattern: str) -> bool:
    """Return whether a pattern is short, and repeats nothing that repeats: quick to match."""
    found = pieces(pattern)
    if len(found) > 300 or sum(piece in _QUANTIFIERS for piece in found) > 12:
        return False
    return not _repeats_within_repeats(found)


_LOOKS = re.compile(r"\?<?[=!]")
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
