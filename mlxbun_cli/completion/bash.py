"""What bash needs done for it: a line split into words, and words quoted.

Readline replaces a part of a word: what stands behind the last quote or one of `COMP_WORDBREAKS`.
bash quotes nothing of what a function offers, so what is offered is the rest of the word, quoted
as the user has begun it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN = frozenset("_@%+=:,./-")  # beside letters and digits: nothing to bash
_ESCAPED = '"\\$`'  # what a backslash stands before between double quotes
# Alone it is nothing that can be chosen; among others, it keeps bash from putting what all of them
# begin with in the place of the word.
_NOTHING_IN_COMMON = " "


@dataclass(frozen=True, kw_only=True)
class Line:
    """A command line up to the cursor."""

    words: tuple[str, ...]
    """Those that are complete, without quotes; the first is the program."""
    text: str
    """The last one, which may be empty, without quotes."""
    raw: str
    """The last one as it was typed."""
    quote: str
    """The quote that is open at its end, or nothing."""


def split(line: str) -> Line:
    """Return the words of a line, as bash would split it; no variable is replaced."""
    words: list[str] = []
    text, quote, start, at = "", "", None, 0
    while at < len(line):
        here, ahead = line[at], line[at + 1 : at + 2]
        if not quote and here.isspace():
            if start is not None:
                words.append(text)
            text, start = "", None
        else:
            start = at if start is None else start
            if here == "\\" and quote != "'" and (not quote or ahead in _ESCAPED):
                text, at = text + ahead, at + 1
            elif here == quote:
                quote = ""
            elif here in "\"'" and not quote:
                quote = here
            else:
                text += here
        at += 1
    raw = "" if start is None else line[start:]
    return Line(words=tuple(words), text=text, raw=raw, quote=quote)


def replies(words: Iterable[str], line: Line, replaced: str, *, shown_only: bool) -> list[str]:
    """Return what to put into COMPREPLY.

    Args:
        words: what the last word may become.
        line: where it stands.
        replaced: the part of it that readline replaces, `$2` of a completion function.
        shown_only: nothing is replaced as long as there are several.
    """
    kept = split(line.raw.removesuffix(replaced))
    rest = (word.removeprefix(kept.text) for word in words if word.startswith(kept.text))
    found = [quoted for each in rest if (quoted := _quote(each, kept.quote)) is not None]
    return [*found, _NOTHING_IN_COMMON] if shown_only and len(found) > 1 else found


def _quote(text: str, quote: str) -> str | None:
    """Return a text quoted, or None where that cannot be done in these quotes."""
    if quote == "'":
        return None if "'" in text else text
    if quote == '"':  # of `!` no backslash takes its meaning there
        return None if "!" in text else "".join(f"\\{c}" if c in _ESCAPED else c for c in text)
    return "".join(c if c.isalnum() or c in _PLAIN else f"\\{c}" for c in text)
