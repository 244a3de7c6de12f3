"""What `memory doctor` checks in one page by itself. Pure and linear."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from core.memory.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.memory.article import Article

_CONFLICT = re.compile(r"^(<{7}|>{7}|\|{7})(?: |\r?$)", re.MULTILINE)


def check_conflict(path: str, text: str) -> Iterator[Finding]:
    """Find what a merge has left in a text: the marks of both sides."""
    marks = {match[1][0]: match.start() for match in _CONFLICT.finditer(text)}
    if "<" in marks and ">" in marks:
        first = _CONFLICT.search(text)
        line = text.count("\n", 0, first.start()) + 1 if first else None
        yield Finding(
            kind="conflict",
            severity="error",
            path=path,
            line=line,
            message="The page has conflict markers of a merge.",
        )


def check_article(path: str, article: Article) -> Iterator[Finding]:
    """Find what is wrong with an article whatever else there is in the vault."""
    yield from _footnotes(path, article)
    if not article.closed:
        yield Finding(
            kind="unclosed-code",
            severity="warning",
            path=path,
            message="A code block or a comment does not end, so nothing can be added after it.",
        )


def _footnotes(path: str, article: Article) -> Iterator[Finding]:
    used = {marker.label.casefold() for marker in article.markers}
    defined = Counter(note.label.casefold() for note in article.footnotes)
    for marker in article.markers:
        if marker.label.casefold() not in defined:
            yield Finding(
                kind="undefined-footnote",
                severity="error",
                path=path,
                line=marker.line,
                message=f"Footnote [^{marker.label}] is not defined.",
            )
    seen: set[str] = set()
    for note in article.footnotes:
        label = note.label.casefold()
        if label not in used:
            yield Finding(
                kind="unused-footnote",
                severity="warning",
                path=path,
                line=note.line,
                message=f"Footnote [^{note.label}] is not used.",
            )
        if label in seen:
            yield Finding(
                kind="duplicate-footnote",
                severity="error",
                path=path,
                line=note.line,
                message=f"Footnote [^{note.label}] is defined twice.",
            )
        seen.add(label)
