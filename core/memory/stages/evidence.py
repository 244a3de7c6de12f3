"""What speaks for and against facts being about an article's subject. Pure.

Points say how sure a merge is: `ENOUGH` of them are wanted. An equal full name is enough by itself,
but not against a different role or relation; an equal first name alone is worth nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.memory.ledger import value_key
from core.memory.names import name_key
from core.memory.stages.catalogue import bare_key, qualifier_of, unique
from core.memory.stages.normal import USER
from core.memory.stages.support import shares_word
from core.memory.truth import states

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from core.memory.citation import Citation
    from core.memory.stages.catalogue import Known
    from core.memory.stages.types import EntityKind, Fact

ENOUGH = 2
"""Points that a merge needs."""
CERTAIN = 4
"""Points with which the model is not asked."""
_MOST_TEXTS = 200
_SHOWN_TEXTS = 5
_IDENTITY = frozenset(
    {"role", "occupation", "profession", "job", "position", "type", "relation", "relationship"}
    | {"species", "breed", "birthday", "surname", "family name", "name"}
)
"""Properties that tell namesakes apart: where both sides have one, it should be the same."""
_DAYS = frozenset(
    {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "january"}
    | {"february", "march", "april", "may", "june", "july", "august", "september", "october"}
    | {"november", "december"}
)
_CAPITALIZED = re.compile(r"[^\W\d_][^\W_]*(?:['’.&-][^\W_]+)*")
_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_OTHER = re.compile(r"\b(?:another|other|different|second|this|new)\s+$", re.IGNORECASE)
_BEFORE = re.compile(r"(?:\b(?:the|my|our|user's|a|an)\s+)([\w-]{2,30}\s+){1,2}$")
_AFTER = re.compile(r"\s{0,2}(?:[,，]\s{0,2}|\()([^,，.;()!?。]{2,60})[,，.)]")
_LONGEST_TEXT = 2_000
_LONGEST_MARK = 60


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An article that facts may belong to, in the vault or planned in this run."""

    article: str
    """Its name."""
    kind: EntityKind
    """What sort of thing it is about."""
    type: str
    """A short noun phrase; may be empty."""
    names: tuple[str, ...]
    """Title, aliases, and the subjects that its footnotes name."""
    texts: tuple[str, ...]
    """Its sentences, without links."""
    cites: tuple[Citation, ...] = ()
    """What its footnotes cite."""
    facts: tuple[Fact, ...] = ()
    """Facts that this run has routed to it."""
    new: bool = False
    """Whether this run creates it."""

    def shown(self, evidence: Evidence) -> dict[str, object]:
        """Return the candidate as a question shows it."""
        return {
            "article": self.article,
            "kind": self.kind,
            "type": self.type,
            "aliases": list(unique((self.article, *self.names))[1:8]),
            "sentences": list(self._all_texts())[:_SHOWN_TEXTS],
            "evidence": list(evidence.reasons),
        }

    def _all_texts(self) -> Iterator[str]:
        yield from self.texts
        yield from (fact.sentence for fact in self.facts)

    def about(self, keys: Iterable[str]) -> list[str]:
        """Return the values, or sentences, of some properties."""
        wanted = frozenset(keys)
        found = [fact.value for fact in self.facts if name_key(fact.property) in wanted]
        found += [c.quote for c in self.cites if name_key(c.property or "") in wanted]
        return found

    def whole(self) -> str:
        """Return all its sentences in one text, bounded."""
        return "\n".join(text[:_LONGEST_TEXT] for text in list(self._all_texts())[:_MOST_TEXTS])


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """How well facts and an article go together."""

    points: int
    """For and against, added up."""
    reasons: tuple[str, ...]
    """What was found, in a few words each."""
    own: bool = False
    """Whether something other than the name speaks for it."""


@dataclass
class _Scale:
    points: int = 0
    own: bool = False
    reasons: list[str] = field(default_factory=list)

    def add(self, points: int, reason: str) -> None:
        self.points += points
        self.own = self.own or (points > 0 and reason != "same full name")
        self.reasons.append(reason)


def known_candidate(known: Known, facts: Iterable[Fact] = ()) -> Candidate:
    """Return an article of the vault as a candidate."""
    article = known.article
    cites = tuple(c for sentence in known.sentences for c in known.citations(sentence))
    subjects = tuple(dict.fromkeys(c.subject for c in cites if c.subject))
    box = article.infobox
    return Candidate(
        article=known.name,
        kind=box.kind if box else "thing",
        type=box.type if box else "",
        names=(article.title or known.name, known.name, *article.aliases, *subjects),
        texts=known.texts[:_MOST_TEXTS],
        cites=cites,
        facts=tuple(facts),
    )


def weigh(facts: Sequence[Fact], candidate: Candidate) -> Evidence:
    """Return what speaks for and against facts (of one subject) being about an article."""
    subject, kind = facts[0].subject, facts[0].kind
    scale = _Scale()
    if subject == USER or bare_key(candidate.article) == bare_key(USER):
        both = subject == USER and name_key(candidate.article) == name_key(USER)
        scale.add(CERTAIN if both else -CERTAIN, "the user")
        return Evidence(points=scale.points, reasons=tuple(scale.reasons), own=both)
    _weigh_kind(kind, candidate, scale)
    _weigh_name(subject, kind, candidate, scale)
    _weigh_source(facts, candidate, scale)
    _weigh_identity(facts, candidate, scale)
    _weigh_overlap(facts, candidate, scale)
    return Evidence(points=scale.points, reasons=tuple(scale.reasons), own=scale.own)


def is_full_name(name: str, kind: EntityKind) -> bool:
    """Return whether a name is more than a first name: all names of things are."""
    bare = bare_key(name)
    return kind != "person" or " " in bare or _CJK.search(bare) is not None


def _weigh_kind(kind: EntityKind, candidate: Candidate, scale: _Scale) -> None:
    if (kind == "person") != (candidate.kind == "person"):
        scale.add(-CERTAIN, "different kind")


def _weigh_name(subject: str, kind: EntityKind, candidate: Candidate, scale: _Scale) -> None:
    """Compare names; an equal full name is enough, with a qualifier it is certain."""
    wanted, own = qualifier_of(subject), qualifier_of(candidate.article)
    if wanted and own and wanted != own:
        scale.add(-CERTAIN, "different qualifier")
    elif wanted and own:
        scale.add(CERTAIN, "same qualifier")
    keys = {bare_key(name) for name in candidate.names}
    if bare_key(subject) not in keys:
        return
    if is_full_name(subject, kind):
        sure = kind != "person" and kind == candidate.kind
        scale.add(CERTAIN if sure else ENOUGH, "same full name")
    elif bare_key(subject) != bare_key(candidate.names[0]):
        scale.add(1, "same alias")


def _weigh_source(facts: Sequence[Fact], candidate: Candidate, scale: _Scale) -> None:
    """Count the same name in the same conversation: mostly it is the same subject."""
    source, key = facts[0].source, name_key(facts[0].subject)
    cited = {(c.source, name_key(c.subject or "")) for c in candidate.cites}
    cited |= {(fact.source, name_key(fact.subject)) for fact in candidate.facts}
    if (source, key) in cited:
        scale.add(ENOUGH, "same conversation")


def _weigh_identity(facts: Sequence[Fact], candidate: Candidate, scale: _Scale) -> None:
    """Compare what tells namesakes apart: role, relation, type, qualifier."""
    names = {word for name in candidate.names for word in name_key(name).split()}
    roles = [fact.value for fact in facts if name_key(fact.property) in _IDENTITY]
    beside = [mark for fact in facts for mark in _beside(fact.subject, fact.quote, fact.sentence)]
    theirs = [qualifier_of(candidate.article), candidate.type, *candidate.about(_IDENTITY)]
    theirs += [mark for name in candidate.names for mark in _beside(name, *candidate.texts)]
    marks = " ".join(_without(mark[:_LONGEST_MARK], names) for mark in theirs)
    if any(shares_word(marks, _without(mark, names)) for mark in (*roles, *beside)):
        scale.add(CERTAIN, "same role or description")
    elif marks.strip() and roles:
        scale.add(-CERTAIN, "different role or description")
    elif marks.strip() and beside:
        scale.add(-ENOUGH, "different description")
    if any(_is_set_apart(fact) for fact in facts):
        scale.add(-1, "set apart from another one")


def _weigh_overlap(facts: Sequence[Fact], candidate: Candidate, scale: _Scale) -> None:
    """Look for values of the same property, and for names that stand on both sides."""
    for fact in facts:
        about = name_key(fact.property)
        if any(states(text, fact.value) for text in candidate.about([about])):
            scale.add(1, f"same {about}")
            break
    own = {value_key(word) for name in candidate.names for word in name.split()}
    ours = {name for fact in facts for name in _proper_names(fact.sentence)} - own
    theirs = set(_proper_names(candidate.whole()))
    shared = sorted((ours & theirs) - {name_key(USER)} - _DAYS)
    # One point however many they are: namesakes may well work at the same place.
    if shared:
        scale.add(1, f"both speak of {shared[0]}")


def _beside(name: str, *texts: str) -> Iterator[str]:
    """Yield what stands beside a name in apposition: "Ana, my sister, …", "the printer Ana"."""
    bare = bare_key(name)
    for text in texts[:_MOST_TEXTS]:
        plain = name_key(text[:_LONGEST_TEXT])
        at = plain.find(bare)
        if at < 0 or not bare:
            continue
        after = _AFTER.match(plain, at + len(bare))
        if after:
            yield after[1]
        before = _BEFORE.search(plain[max(0, at - 80) : at])
        if before:
            yield before[0]


def _without(text: str, words: Iterable[str]) -> str:
    """Return the key of a text without some words."""
    left_out = frozenset(words)
    return " ".join(word for word in name_key(text).split() if value_key(word) not in left_out)


def _is_set_apart(fact: Fact) -> bool:
    """Return whether a quote says that this is another one of the same name."""
    quote = fact.quote[:_LONGEST_TEXT]
    at = name_key(quote).find(name_key(fact.subject))
    return at > 0 and _OTHER.search(name_key(quote)[:at] + " ") is not None


def _proper_names(text: str) -> Iterator[str]:
    """Yield the keys of the capitalized words of a text, first words of sentences aside."""
    for line in text.split("\n"):
        for number, match in enumerate(_CAPITALIZED.finditer(line)):
            word = match[0]
            if number and word[0].isupper() and len(word) > 1:
                yield name_key(word)
