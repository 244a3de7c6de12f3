"""The pages of a vault beside the labels: which labelled facts stand where. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from core.memory.article import parse, sentences
from core.memory.citation import collapsed, parse_citation
from core.memory.evals.oracle import bare
from core.memory.names import name_key
from core.memory.truth import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from core.memory.article import Article
    from core.memory.citation import Citation
    from core.memory.evals.labels import Corpus, LabelledFact


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A sentence of a page and what it cites."""

    text: str
    """Without links, footnotes and "(until DATE)"."""
    until: str | None
    """The day on which it was replaced."""
    citations: tuple[Citation, ...]
    """What its footnotes cite."""
    cited: bool
    """Whether it has a footnote at all."""

    def states(self, fact: LabelledFact) -> bool:
        """Return whether it is on a labelled fact: it cites the words, and has the value."""
        return any(self._states(fact, citation) for citation in self.citations)

    def _states(self, fact: LabelledFact, citation: Citation) -> bool:
        if (citation.source, citation.message) != (fact.source, fact.message):
            return False
        one, other = collapsed(fact.quote), collapsed(citation.quote)
        value = collapsed(fact.value).casefold()
        if one in other:  # a longer quote may hold several facts: the sentence decides
            return one == other or value in self.text.casefold()
        return other in one and value in f"{self.text} {other}".casefold()


@dataclass(frozen=True, kw_only=True)
class ScoredPage:
    """An article of the vault."""

    name: str
    """Its name."""
    article: Article
    """Its parts."""
    stated: tuple[Stated, ...]
    """Its sentences."""
    facts: dict[str, Stated]
    """The labelled facts that stand in it, by id."""
    identity: str | None
    """The labelled article that it is: of most of its facts, else by its name; None: another."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """Its names, as they are compared; a qualifier in parentheses is left out."""
        names = (self.name, self.name.partition(" (")[0], *self.article.aliases)
        return frozenset(name_key(name) for name in names)


def scored_page(name: str, text: str, corpus: Corpus) -> ScoredPage:
    """Return a page with the labelled facts that stand in it."""
    article = parse(text)
    stated = tuple(_stated(article))
    facts = dict(_facts(stated, corpus))
    return ScoredPage(
        name=name,
        article=article,
        stated=stated,
        facts=facts,
        identity=_identity(name, facts, corpus),
    )


def _stated(article: Article) -> Iterator[Stated]:
    for sentence in sentences(article):
        notes = [article.footnote(label) for label in sentence.labels]
        found = [parse_citation(note.text) for note in notes if note]
        yield Stated(
            text=bare(sentence.text),
            until=until(sentence.text),
            citations=tuple(citation for citation in found if citation),
            cited=bool(sentence.labels),
        )


def _facts(stated: Iterable[Stated], corpus: Corpus) -> Iterator[tuple[str, Stated]]:
    for sentence in stated:
        for fact in corpus.facts:
            if sentence.states(fact):
                yield fact.id, sentence


def _identity(name: str, facts: Iterable[str], corpus: Corpus) -> str | None:
    found = set(facts)
    count = Counter(fact.article for fact in corpus.facts if fact.id in found)
    named = [article.name for article in corpus.articles if is_named(name, article.name, corpus)]
    if count:
        most = max(count.values())
        best = sorted(article for article, number in count.items() if number == most)
        return next((article for article in best if article in named), best[0])
    return named[0] if len(named) == 1 else None


def is_named(name: str, article: str, corpus: Corpus) -> bool:
    """Return whether a name is one of a labelled article; a qualifier does not matter."""
    keys = {name_key(name), name_key(name.partition(" (")[0])}
    return bool(keys & corpus.article(article).keys)
