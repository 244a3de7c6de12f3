"""Pages in `Talk/`: what the pipeline did not write, and what a person should decide. Pure.

    # Talk: Ana

    ## Refused (patch)

    The proposed text loses a sentence.

    ```quoted
    what the model said, or what a source said, as data
    ```
    <!-- mlxbun 3f2a9c1b7d5e -->

An entry stands on a page once, however often it comes up; its comment is how it is recognised.
Texts of models and sources stand in a fence that is longer than any run of backticks in them, on
one line, so that nothing in them is Markdown. A page that is full takes no more and says so.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.memory.stages.types import Fact, Refusal, Stage
    from core.memory.truth import Dispute

SYNTHESIS = "Synthesis"
"""The page for what belongs to no article."""
MOST_ENTRIES = 300
"""Entries of one page."""
LARGEST_PAGE = 512 * 1024
"""Characters of one page."""
_LONGEST_TEXT = 1200
_FULL = "<!-- mlxbun full -->"
_FULL_NOTE = f"More entries were left out. Delete entries to make room.\n{_FULL}\n"
_MARK = re.compile(r"^<!-- mlxbun ([0-9a-f]{12}) -->[ \t\r]*$", re.MULTILINE)
_RUN = re.compile(r"`+")
_REASONS = {
    "same-day": "Two values of the same property have the same date. The first one was kept.",
    "undated": "Two values of the same property cannot be ordered: one has no date. Both were "
    "kept.",
    "mixed": "The older sentence says other things too, so that it was not marked as replaced.",
    "deleted": "This was stated again, but it was removed from the article before. It was not "
    "added.",
    "rejected": "This was stated again, but it was rejected in a review before. It was not added.",
}
"""For each kind of `Dispute`."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Something for a Talk page."""

    heading: str
    """A few words of ours."""
    reason: str
    """One sentence of ours; names in it are shown as code."""
    text: str
    """What a model or a source said; may be empty."""

    @property
    def key(self) -> str:
        """Identifies it, so that a page holds it only once."""
        whole = f"{self.heading}\0{self.reason}\0{self.text}"
        return hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:12]


def refused(refusal: Refusal) -> Entry:
    """Return the entry for something that was not taken from the model."""
    return Entry(heading=_refused_in(refusal.stage), reason=refusal.reason, text=refusal.text)


def disputed(dispute: Dispute) -> Entry:
    """Return the entry for facts that contradict each other, or the user."""
    return Entry(
        heading="Contradiction" if dispute.against else "Stated again",
        reason=_REASONS[dispute.kind],
        text=f"{dispute.against} / {_cited(dispute.fact)}".removeprefix(" / "),
    )


def left_out(reason: str, fact: Fact) -> Entry:
    """Return the entry for a fact that could not be written."""
    return Entry(heading="Not added", reason=reason, text=_cited(fact))


def proposed(heading: str, reason: str, text: str = "") -> Entry:
    """Return the entry for a merge or split that a person should decide."""
    return Entry(heading=heading, reason=reason, text=text)


def with_entries(text: str, name: str, entries: Iterable[Entry]) -> str:
    """Return a page with the entries that it does not have yet, at its end.

    Args:
        text: the page as it is; empty: there is none yet.
        name: the article that it belongs to, or `SYNTHESIS`.
        entries: in order.
    """
    known = set(_MARK.findall(text))
    page = text if text.strip() else f"# Talk: {plain_line(name)}\n"
    for entry in entries:
        if entry.key in known:
            continue
        piece = _rendered(entry)
        if len(known) >= MOST_ENTRIES or len(page) + len(piece) > LARGEST_PAGE:
            return page if _FULL in page else _joined(page, _FULL_NOTE)
        known.add(entry.key)
        page = _joined(page, piece)
    return page if known or text.strip() else text


def quoted(text: str) -> str:
    """Return a text as data: on one line, in a fence that it cannot close."""
    line = plain_line(text)[:_LONGEST_TEXT]
    longest = max((len(run) for run in _RUN.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}quoted\n{line}\n{fence}\n"


def plain_line(text: str) -> str:
    """Return a text on one line, without control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _refused_in(stage: Stage) -> str:
    return f"Refused ({stage})"


def _cited(fact: Fact) -> str:
    day = fact.date or "undated"
    return f"{fact.sentence} ({fact.source}#{fact.message}, {day}: {fact.quote})"


def _rendered(entry: Entry) -> str:
    parts = [f"## {entry.heading}\n\n{plain_line(entry.reason)}\n"]
    if entry.text.strip():
        parts.append(quoted(entry.text))
    return "\n".join(parts) + f"<!-- mlxbun {entry.key} -->\n"


def _joined(page: str, piece: str) -> str:
    gap = "" if page.endswith("\n\n") else "\n" if page.endswith("\n") else "\n\n"
    return page + gap + piece
