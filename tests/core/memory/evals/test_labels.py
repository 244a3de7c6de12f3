"""The labels fit the conversations, and the corpus has what the evaluation is about."""

from __future__ import annotations

import json

import pytest

from core.memory.citation import LONGEST_QUOTE, collapsed, is_quoted
from core.memory.evals.labels import PARTS, Corpus, Part, export, read_corpus
from core.memory.names import name_key
from core.memory.sources.chatgpt import is_chatgpt, read_chatgpt
from core.memory.stages.normal import normal_property


@pytest.fixture(params=PARTS)
def corpus(request: pytest.FixtureRequest) -> Corpus:
    part: Part = request.param
    return read_corpus(part)


def test_sizes() -> None:
    project, other, unseen = (read_corpus(part) for part in PARTS)
    assert (len(project.conversations), len(project.facts)) == (30, 60)
    assert (len(other.conversations), len(other.facts)) == (10, 26)
    assert (len(unseen.conversations), len(unseen.facts)) == (10, 38)
    days = [turn.at for talk in project.conversations for turn in talk.turns]
    assert (max(days) - min(days)).days > 350
    assert sum(len(fact.retires) for fact in project.facts) == 16


def test_labels_fit_the_texts(corpus: Corpus) -> None:
    for fact in corpus.facts:
        text = corpus.user_texts[fact.source, fact.message]
        assert is_quoted(fact.quote, text), fact.id
        assert len(fact.quote) <= LONGEST_QUOTE
        assert fact.value in fact.quote, fact.id
        assert corpus.article(fact.article).kind == fact.kind, fact.id
        assert all(name in fact.sentence for name in fact.mentions), fact.id


def test_ids_and_citations_are_unique(corpus: Corpus) -> None:
    assert len({fact.id for fact in corpus.facts}) == len(corpus.facts)
    assert len(corpus.by_key) == len(corpus.facts)
    assert len({collapsed(fact.sentence) for fact in corpus.facts}) == len(corpus.facts)
    turns = [turn.id for talk in corpus.conversations for turn in talk.turns]
    assert len(set(turns)) == len(turns)


def test_replaced_facts_are_older_and_on_the_same_property(corpus: Corpus) -> None:
    facts = {fact.id: fact for fact in corpus.facts}
    days = {turn.id: turn.at for talk in corpus.conversations for turn in talk.turns}
    for fact in corpus.facts:
        for old in (facts[name] for name in fact.retires):
            assert fact.exclusive
            assert old.exclusive
            assert days[old.message] < days[fact.message]
            assert (old.article, normal_property(old.property)) == (
                fact.article,
                normal_property(fact.property),
            )


def test_facts_that_hold_together_do_not_retire_each_other(corpus: Corpus) -> None:
    """Two exclusive labels of one article and property are one chain."""
    chains: dict[tuple[str, str], list[str]] = {}
    for fact in corpus.facts:
        if fact.exclusive:
            key = (fact.article, normal_property(fact.property))
            chains.setdefault(key, []).append(fact.id)
    replaced = {old for fact in corpus.facts for old in fact.retires}
    for chain in chains.values():
        assert len(set(chain) - replaced) == 1, chain


def test_what_the_project_is_about() -> None:
    corpus = read_corpus("project")
    batches = corpus.batches()
    assert len(batches) == 4
    days = [max(talk.turns[0].at for talk in batch) for batch in batches]
    late = min(talk.turns[0].at for talk in batches[-1])
    assert late < days[1], "a conversation arrives after newer ones"
    texts = " ".join(turn.text for talk in corpus.conversations for turn in talk.turns)
    for script in ("電池", "电路板", "박지훈", "Schnittkanten", "subvention"):
        assert script in texts
    shared = [a for a in corpus.articles if name_key("Daniel Weiss") in a.keys]
    assert len(shared) == 2
    roles = {turn.role for talk in corpus.conversations for turn in talk.turns}
    assert {"user", "assistant", "tool"} <= roles


def test_secrets_and_forbidden_words_stand_in_the_conversations(corpus: Corpus) -> None:
    for talk in corpus.conversations:
        said = " ".join(turn.text for turn in talk.turns).casefold()
        assert all(word.casefold() in said for word in talk.forbidden), talk.id
    texts = [turn.text for talk in corpus.conversations for turn in talk.turns]
    for name, secret in corpus.secrets:
        assert any(secret in text for text in texts), name
    assert not any("{{" in text for text in texts)
    sentences = " ".join(fact.sentence for fact in corpus.facts).casefold()
    forbidden = [word for talk in corpus.conversations for word in talk.forbidden]
    assert not any(word.casefold() in sentences for word in forbidden)


def test_the_export_reads_back(corpus: Corpus) -> None:
    raw = json.loads(json.dumps(export(corpus.conversations)))
    for talk, values in zip(corpus.conversations, raw, strict=True):
        assert is_chatgpt(values)
        read = read_chatgpt(values)
        assert read is not None
        assert f"{read.kind}:{read.key}" == talk.source
        assert [(t.id, t.role, t.text, t.at) for t in read.turns] == [
            (t.id, t.role, t.text, t.at) for t in talk.turns
        ]
