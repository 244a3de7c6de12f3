"""The gate under noise: hundreds of seeds, counted by means other than the product's scorer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.memory.evals.labels import read_corpus
from core.memory.evals.noisy import NoisyModel
from core.memory.evals.oracle import OracleModel
from core.memory.evals.run import Bench
from tests.core.memory.evals.counting import Counts, count, folded

if TYPE_CHECKING:
    from pathlib import Path

    from core.memory.asking import Model
    from core.memory.evals.labels import Part

SEEDS = 200


def counted(model: Model, part: Part, workdir: Path) -> Counts:
    """Return what a vault has after every batch of a part."""
    bench = Bench.create(part, workdir)
    for batch in bench.corpus.batches():
        bench.synthesize(batch, lambda: model)
    facts = [
        (fact.id, fact.source, fact.message, fact.quote, names)
        for fact in bench.corpus.facts
        for article in [bench.corpus.article(fact.article)]
        for names in [frozenset(map(folded, (article.name, *article.aliases)))]
    ]
    return count(bench.root, turns=bench.texts(), facts=facts)


def check(counts: Counts) -> None:
    assert counts.notes > 0
    assert counts.bad_notes == ()
    assert counts.dead_links == ()
    assert counts.lost == ()


def test_the_counts_of_the_oracle_are_those_of_the_scorer(tmp_path: Path) -> None:
    corpus = read_corpus("project")
    counts = counted(OracleModel(corpus), "project", tmp_path / "work")
    check(counts)
    assert counts.misplaced == ()
    assert len(counts.facts) >= 0.95 * len(corpus.facts)
    assert counts.links >= 7


@pytest.mark.parametrize("one_in", [5, 2])
@pytest.mark.parametrize(
    "seed",
    [*range(3), *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, SEEDS))],
)
def test_noise_loses_no_sentence_and_invents_nothing(
    tmp_path: Path, seed: int, one_in: int
) -> None:
    model = NoisyModel(read_corpus("unseen"), seed=seed, one_in=one_in)
    check(counted(model, "unseen", tmp_path / "work"))
    assert model.spoiled
