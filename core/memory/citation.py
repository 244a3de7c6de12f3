"""Citations: where a sentence of an article comes from. Pure.

A citation is a footnote of the article, one line:

    [^3]: chatgpt:6f1c#m12 (2026-03-01) [Ada Lovelace · home city]: I moved to Lyon last week.

The source and its message, the date of the message (`undated` if unknown), what the sentence is
about (subject and property; left out for sentences that no fact stands behind), and the quoted
words: a run of the message's words as they stand, whitespace collapsed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE = re.compile(
    r"(?P<source>[^\s#]+)#(?P<message>[^\s#]+) \((?P<date>\d{4}-\d{2}-\d{2}|undated)\)"
    r"(?: \[(?P<subject>[^\[\]·\n]+) · (?P<property>[^\[\]·\n]+)\])?: (?P<quote>\S.*)"
)
_UNDATED = "undated"
LONGEST_QUOTE = 500
"""Characters of quoted words at most."""


@dataclass(frozen=True, kw_only=True)
class Citation:
    """Source, message and quoted words behind a sentence."""

    source: str
    """A conversation's id (`SourceConversation.id`)."""
    message: str
    """A turn's id."""
    quote: str
    """Words of the turn, whitespace collapsed; not empty, at most `LONGEST_QUOTE` characters."""
    date: str | None = None
    """Day of the turn, `YYYY-MM-DD`; None: unknown."""
    subject: str | None = None
    """What the sentence is about; set together with `property`."""
    property: str | None = None
    """Which property of the subject the sentence states: `home city`."""

    def line(self) -> str:
        """Return the text of the footnote, without its label."""
        about = f" [{self.subject} · {self.property}]" if self.subject and self.property else ""
        return f"{self.source}#{self.message} ({self.date or _UNDATED}){about}: {self.quote}"


def parse_citation(text: str) -> Citation | None:
    """Return the citation that a footnote's text states; None: it is another kind of footnote."""
    match = _LINE.fullmatch(text.strip())
    if match is None or len(match["quote"]) > LONGEST_QUOTE:
        return None
    date = match["date"]
    return Citation(
        source=match["source"],
        message=match["message"],
        quote=match["quote"],
        date=None if date == _UNDATED else date,
        subject=match["subject"],
        property=match["property"],
    )


def collapsed(text: str) -> str:
    """Return a text with every run of whitespace as one space."""
    return " ".join(text.split())


def is_quoted(quote: str, text: str) -> bool:
    """Return whether words stand in a text as they are, whitespace aside."""
    return collapsed(quote) in collapsed(text)
