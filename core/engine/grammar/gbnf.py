"""llama.cpp's grammars (GBNF) in the words of xgrammar's EBNF, which is nearly the same. Pure.

Two things differ in grammars that llama.cpp ships or makes: an alternative may be empty, and a dot
stands for any character. What has no counterpart (token literals) is left for the compiler to
refuse.
"""

from __future__ import annotations

import re

# Strings and classes that are not closed reach to the end, so that no text is scanned twice.
_PIECE = re.compile(
    r'"(?:\\.|[^"\\])*"?|\[(?:\\.|[^\]\\])*\]?|#[^\n]*|\s+|::=|[A-Za-z_][\w.-]*|.', re.DOTALL
)
_ANY = r"[\x00-\U0010ffff]"
_EMPTY = '""'
_OPENS = frozenset(("::=", "|", "("))
_ENDS = frozenset(("|", ")"))


def from_gbnf(grammar: str) -> str:
    """Return the grammar as xgrammar reads it; one that has nothing to change is left as it is."""
    written: list[str] = []
    before = ""
    for piece in _PIECE.findall(grammar):
        if piece in _ENDS and before in _OPENS:
            written.append(_EMPTY + " ")
        written.append(_ANY if piece == "." else piece)
        if not piece.isspace() and not piece.startswith("#"):
            before = piece
    if before in _OPENS:
        written.append(" " + _EMPTY)
    return "".join(written)
