"""The whole pipeline over the corpus: what each model reaches, and what no model can spoil."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from core.errors import UsageProblem
from core.memory import pipeline
from core.memory.asking import Cancelled
from core.memory.evals.labels import PARTS, Part, read_corpus
from core.memory.evals.noisy import NOISES, NoisyModel
from core.memory.evals.oracle import OracleModel
from core.memory.evals.run import Bench, EvalReport, built_in_model, run_eval
from core.memory.planning import plan_articles
from core.memory.sentences import split
from core.memory.stages.extract import MOST_FACTS
from core.memory.talk import plain_line, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from core.memory.asking import Model, Question
    from core.memory.stages.types import ArticlePlan, Refusal


def ticking() -> Callable[[], datetime]:
    """Return a clock that is the same in every test."""
    seconds = count()
    return lambda: datetime(2026, 2, 1, tzinfo=UTC) + timedelta(seconds=next(seconds))


def evaluate(model: Model, part: Part, workdir: Path) -> EvalReport:
    return run_eval(lambda: model, part=part, workdir=workdir, clock=ticking())


def check_nothing_is_spoiled(report: EvalReport) -> None:
    """Assert what has to hold with any model."""
    score = report.score
    assert score.lost_sentences == ()
    assert score.invented_links == ()
    assert score.invalid_citations == ()
    assert score.lost_old == ()
    assert score.leaks == ()
    assert score.obeyed == ()
    assert report.steady
    assert (report.echo_facts, report.echo_sentences) == (0, 0)


def parts(*, quick: Part) -> list[Any]:
    """Return the parts of the corpus; `make test` takes one of them."""
    return [part if part == quick else pytest.param(part, marks=pytest.mark.slow) for part in PARTS]


@pytest.mark.parametrize("part", parts(quick="project"))
def test_the_oracle(tmp_path: Path, part: Part) -> None:
    report = evaluate(OracleModel(read_corpus(part)), part, tmp_path / "work")
    check_nothing_is_spoiled(report)
    score = report.score
    assert score.recall.value >= 0.95
    assert score.links.value >= 0.95
    assert score.citations.value >= 0.95
    assert (score.wrong_merges, score.wrongly_marked) == ((), ())
    if part == "project":  # in the other one, two people have a first name only
        assert (score.split, score.not_marked) == ((), ())
        assert score.links.total >= 7


def collect_refusals(monkeypatch: pytest.MonkeyPatch) -> list[Refusal]:
    """Return a list that is filled with what runs refuse."""
    refused: list[Refusal] = []
    plan = plan_articles

    def planned(*args: Any, **keys: Any) -> ArticlePlan:
        result = plan(*args, **keys)
        refused.extend(result.refusals)
        return result

    monkeypatch.setattr(pipeline, "plan_articles", planned)
    return refused


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_noisy_oracle(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = NoisyModel(read_corpus("project"), seed=seed)
    refused = collect_refusals(monkeypatch)
    report = evaluate(model, "project", tmp_path / "work")
    check_nothing_is_spoiled(report)
    assert 0.1 < len(model.spoiled) / model.answers < 0.3
    assert set(Counter(noise for _, noise in model.spoiled)) == set(NOISES)
    assert 0 < report.refused <= len(refused)
    talk = "\n".join(p.read_text() for p in (tmp_path / "work/vault/Talk").iterdir())
    for refusal in refused:
        assert plain_line(refusal.reason) in talk
        assert quoted(refusal.text) in talk or not refusal.text.strip()


@pytest.mark.parametrize("part", parts(quick="unseen"))
def test_the_rules(tmp_path: Path, part: Part) -> None:
    model = built_in_model("rules", part)
    assert model is not None
    report = evaluate(model, part, tmp_path / "work")
    check_nothing_is_spoiled(report)
    assert report.score.recall.value >= {"unseen": 0.6, "other": 0.6, "project": 0.35}[part]


class Parrot:
    """Takes every sentence for a fact, whoever says it; only questions and thanks are none."""

    name = "parrot"

    def __init__(self, oracle: OracleModel) -> None:
        self._oracle = oracle

    def answer(self, question: Question, *, cancelled: Callable[[], bool]) -> Mapping[str, Any]:
        if question.stage != "extract" or question.data["source"].startswith("chatgpt:"):
            return self._oracle.answer(question, cancelled=cancelled)
        said = [(s, t["id"]) for t in question.data["turns"] for s in split(t["text"])]
        repeated = [
            pair for pair in said if not pair[0].startswith("Thanks") and "?" not in pair[0]
        ]
        return {"facts": [_parroted(*pair) for pair in repeated[:MOST_FACTS]]}


def _parroted(sentence: str, message: str) -> dict[str, Any]:
    text = " ".join(sentence.lstrip("->\"' ").split())
    return {
        "message": message,
        "quote": text,
        "subject": " ".join(text.split()[:2]),
        "kind": "thing",
        "property": "note",
        "value": text[:100],
        "exclusive": False,
        "sentence": text,
    }


def test_chats_with_memory_add_nothing_though_the_model_repeats_all(tmp_path: Path) -> None:
    corpus = read_corpus("project")
    report = evaluate(Parrot(OracleModel(corpus)), "project", tmp_path / "work")
    assert (report.echo_facts, report.echo_sentences) == (0, 0)


@pytest.mark.slow  # two evaluations
def test_two_runs_are_alike(tmp_path: Path) -> None:
    part: Part = "unseen"
    first, second = (
        evaluate(NoisyModel(read_corpus(part)), part, tmp_path / name).as_json()
        for name in ("one", "two")
    )
    for report in (first, second):
        del report["vault"]
        del report["seconds"]
    assert first == second


def test_the_folder_must_be_empty(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(UsageProblem, match="is not empty"):
        Bench.create("unseen", tmp_path)


def test_a_cancelled_evaluation(tmp_path: Path) -> None:
    model = partial(OracleModel, read_corpus("unseen"))
    with pytest.raises(Cancelled):
        run_eval(model, part="unseen", workdir=tmp_path / "work", cancelled=lambda: True)


def test_other_names_are_not_built_in() -> None:
    assert built_in_model("starter", "unseen") is None
