"""The ledger: which facts were ever written, so that what the user deletes stays so. Pure.

`Meta/ledger.jsonl` lies in git beside the articles; lines are only ever appended, one JSON object
for each fact. It holds no text of a source: values and sentences are there as hashes, to tell
whether the same thing was said before and whether the user has edited a sentence since.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, get_args

from core.memory.names import name_key
from core.memory.stages.types import FactState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from core.memory.citation import Citation
    from core.memory.stages.types import Fact, Settled

LEDGER = "Meta/ledger.jsonl"
"""Where it lies in a vault."""
_LONGEST_LINE = 4096
_STATES = frozenset(get_args(FactState))


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One line: what became of one fact."""

    fact: str
    """The fact's id."""
    article: str
    """Name of its article."""
    date: str | None
    """Day of the fact; None: unknown."""
    run: str
    """The run that settled it."""
    state: FactState = "written"
    """Where it went."""
    source: str = ""
    """Its conversation."""
    message: str = ""
    """Its turn."""
    property: str = ""
    """Key of its property."""
    exclusive: bool = False
    """Whether a later value retires it."""
    value: str = ""
    """Hash of its value (`value_hash`)."""
    sentence: str = ""
    """Hash of the sentence as it was written, without "(until DATE)" (`text_hash`)."""


_NAMES = frozenset(field.name for field in fields(LedgerEntry))


class Ledger:
    """What the ledger says; answers are by fact, by citation and by statement."""

    def __init__(self, entries: Iterable[LedgerEntry] = (), *, broken: int = 0) -> None:
        self.entries = tuple(entries)
        self.broken = broken
        """Lines that could not be read."""
        self._facts = {entry.fact: entry for entry in self.entries}
        self._cited: dict[tuple[str, str, str], list[LedgerEntry]] = defaultdict(list)
        self._said: dict[tuple[str, str, str], list[LedgerEntry]] = defaultdict(list)
        for entry in self.entries:
            if entry.state == "written":
                self._cited[entry.source, entry.message, entry.property].append(entry)
            self._said[name_key(entry.article), entry.property, entry.value].append(entry)

    def knows(self, fact: str) -> bool:
        """Return whether a fact has been settled before."""
        return fact in self._facts

    def behind(self, citation: Citation, sentence: str = "") -> LedgerEntry | None:
        """Return the entry of the fact that a footnote cites; None: there is none.

        Args:
            citation: the footnote.
            sentence: hash of its sentence, which decides between several facts of one message.
        """
        about = name_key(citation.property or "")
        entries = self._cited.get((citation.source, citation.message, about), [])
        own = (entry for entry in reversed(entries) if entry.sentence == sentence)
        return next(own, entries[-1] if entries else None)

    def said(self, article: str, fact: Fact) -> Sequence[LedgerEntry]:
        """Return the entries of an article with a fact's property and value."""
        key = (name_key(article), name_key(fact.property), value_hash(fact))
        return self._said.get(key, ())


def value_key(value: str) -> str:
    """Return the key under which two spellings of a value are the same."""
    return name_key(value).strip(" .,;:!?。、！？\"'`()")


def text_hash(text: str) -> str:
    """Return the hash of a text, whitespace and case aside."""
    return hashlib.sha256(name_key(text).encode(errors="replace")).hexdigest()[:16]


def value_hash(fact: Fact) -> str:
    """Return the hash of a fact's value, salted with its property."""
    return text_hash(f"{name_key(fact.property)}\0{value_key(fact.value)}")


def entry_of(settled: Settled, *, run: str) -> LedgerEntry:
    """Return the line for what became of a fact."""
    fact = settled.fact
    return LedgerEntry(
        fact=fact.id,
        article=settled.article,
        date=fact.date,
        run=run,
        state=settled.state,
        source=fact.source,
        message=fact.message,
        property=name_key(fact.property),
        exclusive=fact.exclusive,
        value=value_hash(fact),
        sentence=text_hash(settled.sentence) if settled.sentence else "",
    )


def appended(text: str, entries: Iterable[LedgerEntry]) -> str:
    """Return the ledger's text with more lines; what stands there stays byte for byte."""
    lines = [json.dumps(asdict(entry), ensure_ascii=False) for entry in entries]
    gap = "\n" if text and not text.endswith("\n") else ""
    return text + gap + "".join(f"{line}\n" for line in lines)


def parse_ledger(text: str) -> Ledger:
    """Return the ledger of a text; lines that are not entries are counted and left out."""
    entries = []
    broken = 0
    for line in _lines(text):
        entry = _entry(line)
        if entry is None:
            broken += 1
        else:
            entries.append(entry)
    return Ledger(entries, broken=broken)


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.split("\n") if line.strip())


def _entry(line: str) -> LedgerEntry | None:
    if len(line) > _LONGEST_LINE:
        return None
    try:
        raw: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    values = {name: value for name, value in raw.items() if name in _NAMES}
    return _checked(values)


def _checked(values: dict[str, Any]) -> LedgerEntry | None:
    exclusive = values.get("exclusive", False)
    date = values.get("date")
    texts = [value for name, value in values.items() if name not in ("exclusive", "date")]
    fits = (
        all(isinstance(value, str) for value in texts)
        and isinstance(exclusive, bool)
        and (date is None or isinstance(date, str))
        and values.get("state", "written") in _STATES
        and all(values.get(name) for name in ("fact", "article"))
    )
    if not fits:
        return None
    return LedgerEntry(**{"date": None, "run": ""} | values)
