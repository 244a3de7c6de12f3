"""The oracle answers from the labels; the noisy one spoils a fifth of its answers, alike."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from core.memory.asking import Question
from core.memory.evals.labels import PARTS, read_corpus
from core.memory.evals.noisy import NOISES, NoisyModel
from core.memory.evals.oracle import OracleModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.memory.evals.labels import Corpus, LabelledConversation
    from core.memory.stages.types import Stage

CORPUS = read_corpus("project")


def no() -> bool:
    return False


def ask(stage: Stage, data: dict[str, Any]) -> Question:
    return Question(stage=stage, instructions="", data=data, schema={})


def extract_question(talk: LabelledConversation) -> Question:
    turns = [{"id": t.id, "role": t.role, "date": None, "text": t.text} for t in talk.turns]
    return ask("extract", {"source": talk.source, "title": talk.title, "turns": turns})


def shown(fact_id: str, label: str = "1") -> dict[str, Any]:
    fact = next(f for f in CORPUS.facts if f.id == fact_id)
    keys = ("source", "message", "quote", "sentence")
    return {"id": fact.id, "label": label, **{key: getattr(fact, key) for key in keys}}


def questions(corpus: Corpus) -> Iterator[Question]:
    """Yield questions of every stage, many of each."""
    for talk in corpus.conversations:
        yield extract_question(talk)
        data = dict(extract_question(talk).data)
        yield ask("segment", data)
    for at in range(60):
        fact = CORPUS.facts[at % len(CORPUS.facts)]
        one = shown(fact.id)
        candidate = {"article": f"X{at}", "sentences": ["It is."]}
        yield ask("route", {"facts": [one], "candidates": [candidate]})
        yield ask("create", {"article": f"X{at}", "facts": [one]})
        yield ask("section-route", {"kind": "person", "sections": [], "facts": [one]})
        draft = f"{fact.sentence}[^1] Then {at}.[^2]"
        yield ask("patch", {"facts": [one, {**one, "label": "2"}], "draft": draft})
        words = {"target": "X", "anchor": "", "words": "X", "sentence": f"X{at}."}
        yield ask("link", {"candidates": [words]})
        sections = [{"anchor": "a"}, {"anchor": f"b{at}"}]
        yield ask("wikify", {"article": "X", "sections": sections, "related": []})


def test_the_oracle_extracts_the_labelled_facts() -> None:
    for part in PARTS:
        corpus = read_corpus(part)
        oracle = OracleModel(corpus)
        for talk in corpus.conversations:
            answer = oracle.answer(extract_question(talk), cancelled=no)
            assert [fact["quote"] for fact in answer["facts"]] == [f.quote for f in talk.facts]


def test_the_oracle_tells_namesakes_apart() -> None:
    oracle = OracleModel(CORPUS)
    bird = {
        "article": "Daniel Weiss",
        "sentences": [
            "Daniel Weiss is an ornithologist in Kiel who counted birds on the Halligen for "
            "twenty years (until 2025-09-15)."
        ],
    }
    for fact, wanted in {
        "weiss-husum": {"article": "Daniel Weiss", "qualifier": ""},
        "printer-price": {"article": "", "qualifier": "print shop"},
    }.items():
        data = {"facts": [shown(fact)], "candidates": [bird]}
        assert oracle.answer(ask("route", data), cancelled=no) == wanted


def test_the_oracle_links_what_a_sentence_mentions() -> None:
    sentence = "The pilot site of Saltmarsh is [[Hallig Süderoog]]."
    there = {"anchor": "plan", "sentence": sentence}
    candidates = [
        {"target": "Hallig Süderoog", "words": "Hallig Süderoog", **there},
        {"target": "User", "words": "site", **there},
    ]
    answer = OracleModel(CORPUS).answer(ask("link", {"candidates": candidates}), cancelled=no)
    assert [link["target"] for link in answer["links"]] == ["Hallig Süderoog"]


def test_a_fifth_of_the_answers_is_spoiled_and_alike_in_two_runs() -> None:
    first, second = NoisyModel(CORPUS, seed=3), NoisyModel(CORPUS, seed=3)
    for question in questions(CORPUS):
        one = first.answer(question, cancelled=no)
        assert one == second.answer(question, cancelled=no)
    assert first.spoiled == second.spoiled
    assert 0.12 < len(first.spoiled) / first.answers < 0.25
    assert set(Counter(noise for _, noise in first.spoiled)) == set(NOISES)
    assert {stage for stage, _ in first.spoiled} == {
        *("segment", "extract", "route", "create", "section-route", "patch", "link", "wikify")
    }


def test_a_spoiled_answer_differs_from_the_oracle() -> None:
    noisy, oracle = NoisyModel(CORPUS, seed=1), OracleModel(CORPUS)
    for question in questions(CORPUS):
        before = len(noisy.spoiled)
        same = noisy.answer(question, cancelled=no) == oracle.answer(question, cancelled=no)
        assert same == (len(noisy.spoiled) == before)
