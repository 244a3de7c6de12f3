r"""What a person types into a search, as terms; nothing in it is FTS5 syntax. Pure.

Words are separated by white space. `"several words"` are a phrase, and so is a word that the
tokenizer cuts: `foo-bar`. A `*` at the end of a word finds all words that begin so. Everything
else is text: `AND`, `NEAR(`, `C++`, a quote that is not closed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from core.errors import BadRequest
from core.memory.search.tokens import is_open, tokens

LONGEST_QUERY = 1000
"""Characters of a query."""
MOST_TERMS = 32
"""Words and phrases of a query."""

_PIECE = re.compile(r'(?<!\S)"(?P<phrase>[^"]*)"(?P<star>\*?)(?!\S)|\S+')


@dataclass(frozen=True, kw_only=True)
class Term:
    """A word or a phrase."""

    text: str
    """As it was typed, without quotes and `*`."""
    words: tuple[str, ...]
    """As the tokenizer cuts it; at least one."""
    prefix: bool
    """Whether the last of them may continue."""

    @property
    def expression(self) -> str:
        """The term as an FTS5 string: words hold no quote."""
        return f'"{" ".join(self.words)}"{"*" if self.prefix else ""}'

    @property
    def pattern(self) -> str:
        """What to look for in a text of words (`core.memory.search.document`)."""
        joined = "".join(f" {word}\n" for word in self.words)
        return joined.removesuffix("\n") if self.prefix else joined

    def widened(self) -> Term:
        """Return the term as the beginning of a word."""
        return replace(self, prefix=True)


def parse_query(query: str) -> tuple[Term, ...]:
    """Return the terms of a query, each once; none, where nothing in it is a word.

    Raises:
        BadRequest: it is too long.
    """
    if len(query) > LONGEST_QUERY:
        raise BadRequest(
            f"The query has {len(query)} characters; at most {LONGEST_QUERY} are allowed.",
            field="q",
        )
    found: dict[str, Term] = {}
    for match in _PIECE.finditer(query):
        term = _term(match)
        if term is not None:
            found.setdefault(term.expression, term)
    if len(found) > MOST_TERMS:
        raise BadRequest(
            f"The query has {len(found)} words and phrases; at most {MOST_TERMS} are allowed.",
            field="q",
        )
    return tuple(found.values())


def _term(match: re.Match[str]) -> Term | None:
    phrase = match["phrase"]
    text = match[0] if phrase is None else phrase
    starred = text.endswith("*") if phrase is None else bool(match["star"])
    words = tokens(text, whole=False)
    if not words:
        return None
    shown = " ".join(text.rstrip("*").split())
    return Term(text=shown, words=tuple(words), prefix=starred or is_open(words[-1]))
