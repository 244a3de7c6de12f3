"""Perplexity: the number that mlx-lm's own evaluation gives, with the head in chunks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx_lm.perplexity import eval_ppl
from mlx_lm.utils import load_model

from core.engine.split import split_model
from core.errors import BadModelFiles
from core.evals import perplexity as module
from core.evals.documents import TokenRows
from core.evals.perplexity import measure_perplexity, token_losses
from core.progress import Progress
from tests.tiny import llama_config, make_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_model(make_model(tmp_path_factory.mktemp("models") / "tiny"))[0]


def rows_of(*lengths: int, domains: tuple[str, ...] | None = None, seed: int = 0) -> TokenRows:
    draw = np.random.default_rng(seed)
    return TokenRows(
        rows=tuple(tuple(map(int, draw.integers(0, 259, length))) for length in lengths),
        domains=domains or ("text",) * len(lengths),
        digest="0",
    )


@pytest.mark.parametrize("batch_size", [1, 3, 8])
@pytest.mark.parametrize("bits", [None, 4])
def test_it_is_the_number_of_mlx_lm(tmp_path: Path, batch_size: int, bits: int | None) -> None:
    model = load_model(make_model(tmp_path, bits=bits))[0]
    rows = rows_of(*[40] * 7)
    expected, error = eval_ppl(model, mx.array(rows.rows), batch_size=batch_size)
    found = measure_perplexity(model, rows, batch_size=batch_size).whole
    assert found.tokens == 7 * 39
    assert found.perplexity == pytest.approx(expected, rel=1e-5)
    assert found.perplexity_error == pytest.approx(error, rel=1e-4)


@pytest.mark.parametrize("config", [{}, {"tie_word_embeddings": False}])
def test_chunks_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]
) -> None:
    model = load_model(make_model(tmp_path, config=llama_config(**config)))[0]
    split = split_model(model)
    tokens = mx.array(rows_of(50, 50).rows)
    whole = np.array(token_losses(split, tokens))
    monkeypatch.setattr(module, "_CHUNK_BYTES", 0)
    assert whole.shape == (2, 49)
    assert np.array(token_losses(split, tokens)) == pytest.approx(whole, rel=1e-6)


def test_a_head_that_is_not_known_is_computed_whole(model: Any) -> None:
    class Wrapped(nn.Module):
        """Nothing in here looks like a body with a head."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = model
            self.layers = model.layers

        def __call__(self, tokens: mx.array) -> mx.array:
            logits: mx.array = self.inner(tokens)
            return logits

    assert not split_model(Wrapped()).known
    rows = rows_of(20, 20, 9)
    found = measure_perplexity(Wrapped(), rows, batch_size=2).whole
    assert found.mean == pytest.approx(measure_perplexity(model, rows, batch_size=2).whole.mean)


def test_domains_make_up_the_whole(model: Any) -> None:
    rows = rows_of(30, 12, 30, 7, domains=("a", "a", "b", "b"))
    reports: list[Progress] = []
    found = measure_perplexity(model, rows, batch_size=4, on_progress=reports.append)
    a, b = found.domains["a"], found.domains["b"]
    assert (a.tokens, b.tokens) == (29 + 11, 29 + 6)
    assert found.whole.tokens == 75
    assert found.whole.mean == pytest.approx((40 * a.mean + 35 * b.mean) / 75)
    assert reports[-1].done == reports[-1].total == 4
    assert found.tokens_per_second > 0
    assert found.peak_bytes > 0


def test_one_token_has_no_standard_error(model: Any) -> None:
    found = measure_perplexity(model, rows_of(2), batch_size=1).whole
    assert found.tokens == 1
    assert math.isnan(found.standard_error)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e39])
def test_logits_that_are_not_finite_are_said(tmp_path: Path, value: float) -> None:
    model = load_model(make_model(tmp_path))[0]
    weight = model.model.norm.weight
    model.model.norm.weight = mx.concatenate([mx.array([value]), weight[1:]])
    with pytest.raises(BadModelFiles, match="NaN or infinite: of 58 tokens"):
        measure_perplexity(model, rows_of(30, 30), batch_size=2)


def test_a_loss_beyond_numbers_is_said(tmp_path: Path) -> None:
    model = load_model(make_model(tmp_path))[0]
    model.model.norm.weight = model.model.norm.weight * 1e6
    with pytest.raises(BadModelFiles, match="beyond what a number can hold"):
        measure_perplexity(model, rows_of(30), batch_size=1)
