"""Which fact holds: what a new fact means for the sentences that stand in its article. Pure.

Only facts on the same subject and property, both exclusive, retire each other. The one with the
later date holds; the older sentence keeps its words and its footnote and gets " (until DATE)", the
date of the fact that replaced it. In which order facts arrive does not matter: an older one that
comes later is retired when it goes in. A fact without a date retires nothing and is not retired.
The same value again adds a footnote, not a sentence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from core.memory.ledger import text_hash, value_hash, value_key
from core.memory.names import name_key
from core.memory.sentences import stop_offset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from core.memory.citation import Citation
    from core.memory.ledger import Ledger, LedgerEntry
    from core.memory.stages.types import Fact

MOST_CITATIONS = 3
"""Footnotes of one sentence; more evidence for the same is not written."""
_UNTIL = re.compile(r" \(until (\d{4}-\d{2}-\d{2})\)")
_UNTIL_LENGTH = len(" (until 2026-03-01)")
_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")

DisputeKind = Literal["same-day", "undated", "mixed", "deleted", "rejected"]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A sentence of the article, as `settle` wants it."""

    text: str
    """Without markup."""
    citations: tuple[Citation, ...]
    """What its footnotes cite; footnotes of another kind are left out."""
    labels: int = 0
    """How many footnotes it has, of any kind."""


@dataclass(frozen=True, kw_only=True)
class Insert:
    """A fact that becomes a sentence."""

    fact: Fact
    """The fact."""
    until: str | None
    """The day on which another one replaced it; None: it holds."""
    also: tuple[Fact, ...] = ()
    """Facts of the same run that say the same and are cited beside it."""


@dataclass(frozen=True, kw_only=True)
class Cited:
    """A fact that a sentence states already: it gets another footnote."""

    sentence: int
    """Which of the standing ones."""
    fact: Fact
    """The fact."""


@dataclass(frozen=True, kw_only=True)
class Dispute:
    """What a person should look at."""

    kind: DisputeKind
    """`same-day`: two values on one day; `undated`: it is unclear which is newer; `mixed`: the
    older sentence says other things too; `deleted`, `rejected`: the user removed this before."""
    fact: Fact
    """The new fact."""
    against: str
    """The sentence that it disagrees with; may be empty."""


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """What facts mean for an article."""

    inserts: tuple[Insert, ...]
    """New sentences, oldest first."""
    cited: tuple[Cited, ...]
    """Further footnotes of sentences that stand there."""
    retired: Mapping[int, str]
    """Standing sentences that get "(until DATE)", or another date there, and the date."""
    same: tuple[Fact, ...]
    """Facts that change nothing."""
    out: tuple[Fact, ...]
    """Facts that do not go into the article; each has a dispute."""
    disputes: tuple[Dispute, ...]
    """For the Talk page; a fact that is written can have one too."""


def until(text: str) -> str | None:
    """Return the day in the "(until DATE)" at the end of a sentence; None: it has none."""
    start, stop = until_place(text)
    match = _UNTIL.fullmatch(text, start, stop)
    return match[1] if match else None


def without_until(text: str) -> str:
    """Return a sentence without "(until DATE)" at its end."""
    start, stop = until_place(text)
    return text[:start] + text[stop:]


def until_place(text: str) -> tuple[int, int]:
    """Return where "(until DATE)" stands or belongs in a sentence: before its full stop.

    Args:
        text: the sentence; footnote markers may follow it.
    """
    stop = stop_offset(text)
    start = max(0, stop - _UNTIL_LENGTH)
    return (start, stop) if _UNTIL.fullmatch(text, start, stop) else (stop, stop)


def retired_text(text: str, day: str) -> str:
    """Return a sentence with "(until DATE)" before its full stop, in place of one that it has."""
    start, stop = until_place(text)
    return f"{text[:start]} (until {day}){text[stop:]}"


def settle(
    facts: Iterable[Fact],
    standing: Sequence[Standing],
    *,
    article: str,
    names: Iterable[str],
    ledger: Ledger,
) -> Settlement:
    """Return what facts mean for an article; for facts of different days in any order the same.

    Args:
        facts: new to the ledger, routed to this article.
        standing: its sentences, in order.
        article: its name.
        names: its title and aliases, which are one subject.
        ledger: what was written before.
    """
    board = _Board(standing, article=article, names=names, ledger=ledger)
    for fact in sorted(facts, key=_order):
        board.take(fact)
    return board.settlement()


def _order(fact: Fact) -> tuple[bool, str]:
    return (fact.date is None, fact.date or "")


@dataclass(kw_only=True)
class _Line:
    """A sentence on the board, standing there or to be inserted."""

    text: str
    about: str
    """Key of its property."""
    subject: str
    exclusive: bool
    mixed: bool
    """Whether it speaks of several properties."""
    values: set[str]
    """Hashes of its values; empty: unknown."""
    dates: list[str]
    cites: set[tuple[str, str]]
    until: str | None = None
    index: int | None = None
    """Which of the standing sentences; None: an insert."""
    fact: Fact | None = None
    also: list[Fact] = field(default_factory=list)
    labels: int = 0

    @property
    def first(self) -> str:
        return min(self.dates, default="")

    @property
    def last(self) -> str:
        return max(self.dates, default="")


class _Board:
    """The sentences of an article while facts come in. Small steps, each by one fact."""

    def __init__(
        self,
        standing: Sequence[Standing],
        *,
        article: str,
        names: Iterable[str],
        ledger: Ledger,
    ) -> None:
        self.article, self.ledger = article, ledger
        self.names = {name_key(name) for name in (article, *names)}
        self.lines: list[_Line] = []
        self.present: set[tuple[str, str, str]] = set()
        """Source, message and property of every footnote in use."""
        self.cited: list[Cited] = []
        self.retired: dict[int, str] = {}
        self.same: list[Fact] = []
        self.out: list[Fact] = []
        self.disputes: list[Dispute] = []
        for index, sentence in enumerate(standing):
            self._place(index, sentence)

    def settlement(self) -> Settlement:
        inserts = (line for line in self.lines if line.fact is not None)
        return Settlement(
            inserts=tuple(
                Insert(fact=line.fact, until=line.until, also=tuple(line.also))
                for line in inserts
                if line.fact is not None
            ),
            cited=tuple(self.cited),
            retired=self.retired,
            same=tuple(self.same),
            out=tuple(self.out),
            disputes=tuple(self.disputes),
        )

    def take(self, fact: Fact) -> None:
        """Settle one fact."""
        lines = list(self._on_same(fact))
        equal = [line for line in lines if self._says(line, fact)]
        others = [line for line in lines if line not in equal and line.exclusive]
        covering = self._covering(fact, equal, others)
        if covering is not None:
            if self._cite(covering, fact) and fact.exclusive and fact.date:
                self._correct_ends(fact, fact.date, others)
        elif self._is_gone(fact):
            return
        elif not fact.exclusive:
            self._insert(fact, None)
        else:
            self._replace(fact, others)

    def _place(self, index: int, sentence: Standing) -> None:
        """Put a standing sentence on the board, once for each property that it cites."""
        about: dict[tuple[str, str], list[Citation]] = {}
        for citation in sentence.citations:
            key = (self._subject(citation.subject or ""), name_key(citation.property or ""))
            about.setdefault(key, []).append(citation)
            self.present.add((citation.source, citation.message, key[1]))
        own = text_hash(without_until(sentence.text))
        for (subject, property_key), citations in about.items():
            behind = (self.ledger.behind(citation, own) for citation in citations)
            entries = [entry for entry in behind if entry is not None]
            self.lines.append(
                _Line(
                    text=without_until(sentence.text),
                    about=property_key,
                    subject=subject,
                    exclusive=bool(property_key) and all(entry.exclusive for entry in entries),
                    mixed=len(about) > 1,
                    values=_values(sentence.text, entries),
                    dates=[citation.date for citation in citations if citation.date],
                    cites={(citation.source, citation.message) for citation in citations},
                    until=until(sentence.text),
                    index=index,
                    labels=sentence.labels or len(sentence.citations),
                )
            )

    def _subject(self, subject: str) -> str:
        """Return the key of a subject; all names of the article are one."""
        key = name_key(subject)
        return "" if key in self.names else key

    def _on_same(self, fact: Fact) -> Iterator[_Line]:
        """Yield the sentences on the fact's property, and those with its very words."""
        subject, about = self._subject(fact.subject), name_key(fact.property)
        words = name_key(fact.sentence)
        for line in self.lines:
            is_same = line.about == about and line.subject == subject
            if is_same or name_key(line.text) == words:
                yield line

    def _says(self, line: _Line, fact: Fact) -> bool:
        """Return whether a sentence states the fact's value."""
        if name_key(line.text) == name_key(fact.sentence):
            return True
        if line.values:
            return value_hash(fact) in line.values
        return states(line.text, fact.value)

    def _covering(
        self, fact: Fact, equal: Sequence[_Line], others: Sequence[_Line]
    ) -> _Line | None:
        """Return the sentence that states the fact for the time of the fact.

        Between the fact and one of the sentence's dates no other value may have held.
        """
        if not fact.exclusive:
            return equal[0] if equal else None
        changes = [day for line in others for day in line.dates]
        for line in equal:
            days = line.dates or [fact.date or ""]
            if fact.date is None or any(_is_calm(day, fact.date, changes) for day in days):
                return line
        return None

    def _correct_ends(self, fact: Fact, day: str, others: Sequence[_Line]) -> None:
        """Set earlier end dates: a value that replaced others was true before its first date."""
        for line in others:
            if line.until is not None:
                self._retire(line, fact, day)

    def _cite(self, line: _Line, fact: Fact) -> bool:
        """Add a footnote to a sentence that states the fact, unless it has enough; return if so."""
        known = (fact.source, fact.message) in line.cites
        if known or line.labels >= MOST_CITATIONS:
            self.same.append(fact)
            return False
        line.labels += 1
        line.cites.add((fact.source, fact.message))
        if fact.date:
            line.dates.append(fact.date)
        if line.index is None:
            line.also.append(fact)
        else:
            self.cited.append(Cited(sentence=line.index, fact=fact))
        return True

    def _is_gone(self, fact: Fact) -> bool:
        """Return whether the user has removed this statement; it stays out then."""
        for entry in self.ledger.said(self.article, fact):
            if entry.state == "rejected":
                self._leave_out("rejected", fact, "")
                return True
            # Other values of the same property and message may stand there with the same footnote.
            is_there = fact.exclusive and (
                (entry.source, entry.message, entry.property) in self.present
            )
            if entry.state == "written" and not is_there:
                self._leave_out("deleted", fact, "")
                return True
        return False

    def _replace(self, fact: Fact, others: Sequence[_Line]) -> None:
        """Insert an exclusive fact and retire what it replaces."""
        day = fact.date
        if day is None:
            self._insert(fact, None)
            for line in (line for line in others if line.until is None):
                self._dispute("undated", fact, line.text)
            return
        clash = next((line for line in others if day in line.dates), None)
        if clash is not None:
            self._leave_out("same-day", fact, clash.text)
            return
        for line in others:
            self._retire(line, fact, day)
        later = [other for line in others for other in line.dates if other > day]
        self._insert(fact, min(later, default=None))

    def _retire(self, line: _Line, fact: Fact, day: str) -> None:
        """Retire a sentence that a fact replaces, or correct the day on which it was replaced."""
        if not line.dates:
            if line.until is None:
                self._dispute("undated", fact, line.text)
            return
        if line.last > day:
            return
        if line.until is None and line.mixed:
            self._dispute("mixed", fact, line.text)
        elif line.until is None or self._is_later_change(line, day):
            line.until = day
            if line.index is not None:
                self.retired[line.index] = day

    def _is_later_change(self, line: _Line, day: str) -> bool:
        """Return whether a sentence's end is later than a day, and one that another fact set."""
        if line.until is None or line.until <= day:
            return False
        return any(
            line.until in other.dates
            for other in self.lines
            if other.about == line.about and other.subject == line.subject
        )

    def _insert(self, fact: Fact, day: str | None) -> None:
        self.lines.append(
            _Line(
                text=fact.sentence,
                about=name_key(fact.property),
                subject=self._subject(fact.subject),
                exclusive=fact.exclusive,
                mixed=False,
                values={value_hash(fact)},
                dates=[fact.date] if fact.date else [],
                cites={(fact.source, fact.message)},
                until=day,
                fact=fact,
                labels=1,
            )
        )

    def _leave_out(self, kind: DisputeKind, fact: Fact, against: str) -> None:
        self.out.append(fact)
        self._dispute(kind, fact, against)

    def _dispute(self, kind: DisputeKind, fact: Fact, against: str) -> None:
        self.disputes.append(Dispute(kind=kind, fact=fact, against=against))


def _values(text: str, entries: Sequence[LedgerEntry]) -> set[str]:
    """Return the hashes of a sentence's values; none if the user has edited it since."""
    own = text_hash(without_until(text))
    if any(entry.sentence and entry.sentence != own for entry in entries):
        return set()
    return {entry.value for entry in entries if entry.value}


def _is_calm(one: str, other: str, changes: Sequence[str]) -> bool:
    """Return whether no change lies between two days; an unknown day is calm."""
    if not one:
        return True
    low, high = sorted((one, other))
    return not any(low < change < high for change in changes)


def states(text: str, value: str) -> bool:
    """Return whether the words of a value stand in a text, as a run of whole words."""
    wanted = value_key(value)
    if not wanted:
        return False
    if _CJK.search(wanted):
        return wanted in name_key(text)
    words = [value_key(word) for word in text.split()]
    run = [value_key(word) for word in wanted.split()]
    return any(words[at : at + len(run)] == run for at in range(len(words) - len(run) + 1))
