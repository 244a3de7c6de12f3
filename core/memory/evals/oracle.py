"""A model that knows the labels: what the pipeline makes of right answers.

It answers every stage's question (see the docstrings of `core.memory.stages`) from the labels. It
recognises a fact by its citation, and an article by the labelled facts that stand in it. Questions
about anything else get an answer that proposes nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from core.memory.citation import collapsed
from core.memory.names import name_key
from core.memory.truth import without_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from core.memory.asking import Question
    from core.memory.evals.labels import Corpus, LabelledFact

_HEADINGS = {
    "person": "Work and life",
    "project": "Plan",
    "standard": "Format",
}
_OTHER_HEADING = "Details"
_MOST_IN_LEAD = 2
_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")


class OracleModel:
    """Answers from the labels of one part of the corpus."""

    name = "oracle"

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._sentences = {collapsed(fact.sentence): fact for fact in corpus.facts}

    def answer(self, question: Question, *, cancelled: Callable[[], bool]) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the labelled answer, or one that proposes nothing."""
        answers: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "segment": self._segment,
            "extract": self._extract,
            "route": self._route,
            "create": self._create,
            "section-route": self._section_route,
            "patch": self._patch,
            "link": self._link,
            "wikify": self._wikify,
        }
        return answers[question.stage](question.data)

    def fact(self, shown: Mapping[str, Any]) -> LabelledFact | None:
        """Return the labelled fact that a question shows."""
        key = (shown["source"], shown["message"], collapsed(shown["quote"]))
        return self.corpus.by_key.get(key)

    @staticmethod
    def _segment(data: Mapping[str, Any]) -> dict[str, Any]:
        turns = data["turns"]
        whole = {"first": turns[0]["id"], "last": turns[-1]["id"], "title": data["title"]}
        return {"segments": [whole]}

    def _extract(self, data: Mapping[str, Any]) -> dict[str, Any]:
        texts = {turn["id"]: collapsed(turn["text"]) for turn in data["turns"]}
        facts = [
            fact
            for fact in self.corpus.facts
            if fact.source == data["source"]
            and collapsed(fact.quote) in texts.get(fact.message, "")
        ]
        return {"facts": [extracted(fact) for fact in facts]}

    def _route(self, data: Mapping[str, Any]) -> dict[str, Any]:
        wanted = next((f.article for f in map(self.fact, data["facts"]) if f), None)
        if wanted is None:
            return {"article": "", "qualifier": ""}
        for candidate in data["candidates"]:
            if self.identity(candidate["sentences"]) == wanted:
                return {"article": candidate["article"], "qualifier": ""}
        return {"article": "", "qualifier": _qualifier(wanted)}

    def identity(self, sentences: Iterable[str]) -> str | None:
        """Return the labelled article whose sentences an article has; None: it has none."""
        for sentence in sentences:
            fact = self._sentences.get(bare(sentence))
            if fact is not None:
                return fact.article
        return None

    def _create(self, data: Mapping[str, Any]) -> dict[str, Any]:
        facts = [fact for fact in map(self.fact, data["facts"]) if fact]
        lead = [shown["id"] for shown in data["facts"]][:_MOST_IN_LEAD]
        if not facts:
            return {"type": "", "aliases": [], "lead": lead}
        label = self.corpus.article(facts[0].article)
        said = " ".join(f"{fact.quote} {fact.sentence}" for fact in facts)
        kind = label.type if label.type in said else ""
        # An alias stands by itself somewhere, not only as a part of the name.
        rest = name_key(said).replace(name_key(data["article"]), " ")
        usable = {name_key(a): a for a in label.aliases if _stands(name_key(a), rest)}
        aliases = [a for key, a in usable.items() if key not in self._shared_names()]
        return {"type": kind, "aliases": aliases, "lead": lead}

    def _shared_names(self) -> frozenset[str]:
        """Return the names that several articles have."""
        keys = [key for article in self.corpus.articles for key in article.keys]
        return frozenset(key for key in keys if keys.count(key) > 1)

    @staticmethod
    def _section_route(data: Mapping[str, Any]) -> dict[str, Any]:
        heading = _HEADINGS.get(data["kind"], _OTHER_HEADING)
        there = [s for s in data["sections"] if name_key(s["heading"]) == name_key(heading)]
        place = (
            {"anchor": there[0]["anchor"], "heading": ""}
            if there
            else {"anchor": "", "heading": heading}
        )
        return {"places": [{"fact": fact["id"], **place} for fact in data["facts"]]}

    @staticmethod
    def _patch(data: Mapping[str, Any]) -> dict[str, Any]:
        return {"text": data["draft"]}

    def _link(self, data: Mapping[str, Any]) -> dict[str, Any]:
        right = [shown for shown in data["candidates"] if self._is_mentioned(shown)]
        return {"links": [{k: s[k] for k in ("target", "anchor", "words")} for s in right]}

    def _is_mentioned(self, candidate: Mapping[str, Any]) -> bool:
        fact = self._sentences.get(bare(candidate["sentence"]))
        return fact is not None and any(
            name_key(candidate["target"]) in self.corpus.article(name).keys
            for name in fact.mentions
        )

    def _wikify(self, data: Mapping[str, Any]) -> dict[str, Any]:
        allowed = self.corpus.links()
        related = [shown["article"] for shown in data["related"]]
        return {"order": [], "see_also": [n for n in related if (data["article"], n) in allowed]}


def extracted(fact: LabelledFact) -> dict[str, Any]:
    """Return a labelled fact in the form in which `extract` wants it."""
    return {
        "message": fact.message,
        "quote": fact.quote,
        "subject": fact.subject,
        "kind": fact.kind,
        "property": fact.property,
        "value": fact.value,
        "exclusive": fact.exclusive,
        "sentence": fact.sentence,
    }


def bare(sentence: str) -> str:
    """Return a sentence as the labels have it: no links, no "(until DATE)"."""
    return collapsed(without_until(_LINK.sub(r"\1", sentence)))


def _stands(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _qualifier(article: str) -> str:
    """Return what stands in parentheses at the end of a labelled name."""
    return article.partition(" (")[2].rstrip(")")
