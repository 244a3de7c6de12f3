"""How facts get into the text of an article, sentence by sentence. Pure.

This is the deterministic way; `patch` lets a model do better and falls back on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from core.errors import UsageProblem
from core.memory.article import parse, sentences
from core.memory.citation import LONGEST_QUOTE, Citation, collapsed, parse_citation
from core.memory.edits import add_footnote, insert_sentence, new_article
from core.memory.plain import LONGEST_SENTENCE, has_markup
from core.memory.sentences import split
from core.memory.stages.orders import is_order
from core.memory.truth import retired_text
from core.memory.validate import Allowance, sentence_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.memory.stages.catalogue import Known
    from core.memory.stages.types import Draft, Fact, Placed
    from core.memory.truth import Insert, Settlement


@dataclass(frozen=True, kw_only=True)
class Work:
    """An article that facts go into."""

    article: str
    """Its name."""
    title: str
    """Its title, if it is new."""
    known: Known | None
    """The article as it is; None: it is new."""
    draft: Draft | None
    """How it begins; None: it is there already."""
    settlement: Settlement
    """What the facts mean for it."""
    placed: Mapping[str, Placed]
    """The section of each fact that becomes a sentence."""


@dataclass(frozen=True, kw_only=True)
class Woven:
    """An article as it is to be, and what may have changed in it."""

    article: str
    """Its name."""
    digest: str | None
    """SHA-256 of the bytes that it was planned for; None: it is new."""
    base: str
    """Its text as it is; empty: it is new."""
    text: str
    """Its text as it is to be."""
    allowed: Allowance
    """What this run may have added."""
    inserts: tuple[Insert, ...] = ()
    """New sentences that are in the text."""
    cited: tuple[Fact, ...] = ()
    """Facts that sentences of the article got another footnote for."""
    failed: tuple[tuple[Fact, str], ...] = ()
    """Facts that could not be written, and why."""
    sections: tuple[str, ...] = ()
    """Anchors of new sections."""

    def allowing(self, **changes: object) -> Woven:
        """Return it with another allowance."""
        return replace(self, allowed=replace(self.allowed, **changes))  # type: ignore[arg-type]


def citation_line(fact: Fact) -> str:
    """Return the text of the footnote for a fact."""
    quote = collapsed(fact.quote)[:LONGEST_QUOTE].strip()
    return Citation(
        source=fact.source,
        message=fact.message,
        quote=quote,
        date=fact.date,
        subject=fact.subject,
        property=fact.property,
    ).line()


def fault_of(fact: Fact) -> str | None:
    """Return why a fact's own sentence cannot stand in an article; None: it can."""
    if not any(map(str.isalnum, fact.sentence)) or len(fact.sentence) > LONGEST_SENTENCE:
        return "The sentence is empty or too long."
    if has_markup(fact.sentence):
        return "The sentence has markup."
    if is_order(fact.sentence):
        return "The sentence gives an order."
    if parse_citation(citation_line(fact)) is None:
        return "The citation is not valid."
    return None


def begun(work: Work) -> Woven:
    """Return an article before new sentences: a new one's head, or the old text.

    In the old text, sentences that a fact replaces have "(until DATE)", and sentences that a fact
    says again have another footnote.
    """
    if work.known is None:
        return _begun_new(work)
    cited = _with_footnotes(work, work.known.page.text)
    retired, marked = {}, set()
    text = cited.text
    found = sentences(parse(text))
    for index in sorted({*cited.labels, *work.settlement.retired}, reverse=True):
        sentence = found[index]
        piece = text[sentence.start : sentence.end]
        day = work.settlement.retired.get(index)
        key = sentence_key(sentence.text)
        if day is not None:
            piece = retired_text(piece, day)
            retired[key] = day
        if index in cited.labels:
            piece += "".join(f"[^{label}]" for label in cited.labels[index])
            marked.add(key)
        text = text[: sentence.start] + piece + text[sentence.end :]
    return Woven(
        article=work.article,
        digest=work.known.page.digest,
        base=work.known.page.text,
        text=text,
        allowed=Allowance(
            notes=cited.notes, retired=retired, cited=frozenset(marked), facts=len(cited.facts)
        ),
        cited=tuple(cited.facts),
        failed=tuple(cited.failed),
    )


@dataclass(kw_only=True)
class _Cited:
    """An article with the footnotes of facts that its sentences state already."""

    text: str
    notes: dict[str, str] = field(default_factory=dict)
    """Label and text of each footnote."""
    labels: dict[int, list[str]] = field(default_factory=dict)
    """Labels to add, by the number of the sentence."""
    facts: list[Fact] = field(default_factory=list)
    failed: list[tuple[Fact, str]] = field(default_factory=list)
    """Facts whose footnotes the article cannot take, and why."""


def _with_footnotes(work: Work, text: str) -> _Cited:
    cited = _Cited(text=text)
    for item in work.settlement.cited:
        line = citation_line(item.fact)
        try:
            cited.text, label = add_footnote(cited.text, line)
        except UsageProblem as failure:
            cited.failed.append((item.fact, failure.message))
            continue
        cited.notes[label] = line
        cited.labels.setdefault(item.sentence, []).append(label)
        cited.facts.append(item.fact)
    return cited


def _begun_new(work: Work) -> Woven:
    draft = work.draft
    text = new_article(
        work.title,
        kind=draft.kind if draft else "thing",
        type=draft.type if draft else "",
        aliases=draft.aliases if draft else (),
    )
    fields = frozenset(("type", "kind", "aliases"))
    allowed = Allowance(notes={}, fields=fields, title=parse(text).title)
    return Woven(article=work.article, digest=None, base="", text=text, allowed=allowed)


def with_insert(woven: Woven, item: Insert, anchor: str) -> Woven:
    """Return an article with a fact's own sentence at the end of a section.

    Raises:
        UsageProblem: the sentence cannot stand there.
    """
    text = woven.text
    notes = {}
    for fact in (item.fact, *item.also):
        line = citation_line(fact)
        text, label = add_footnote(text, line)
        notes[label] = line
    markers = "".join(f"[^{label}]" for label in notes)
    pieces = split(item.fact.sentence)
    if item.until is not None:
        pieces = tuple(retired_text(piece, item.until) for piece in pieces)
    text = insert_sentence(text, " ".join(piece + markers for piece in pieces), anchor=anchor)
    allowed = replace(
        woven.allowed,
        notes={**woven.allowed.notes, **notes},
        facts=woven.allowed.facts + len(notes),
    )
    return replace(woven, text=text, allowed=allowed, inserts=(*woven.inserts, item))


def labels_of(woven: Woven, item: Insert) -> tuple[str, ...]:
    """Return the labels of the footnotes of a new sentence, that of its fact first."""
    by_line = {line: label for label, line in woven.allowed.notes.items()}
    lines = (citation_line(fact) for fact in (item.fact, *item.also))
    return tuple(by_line[line] for line in lines if line in by_line)
