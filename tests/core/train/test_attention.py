"""Attention in blocks is attention: the same outputs and gradients, with and without a past."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models import llama
from mlx_lm.models.base import scaled_dot_product_attention
from mlx_lm.utils import load_model

from core.train import attention
from core.train.arrays import number
from core.train.attention import blocked_attention
from tests.tiny import make_model


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_BLOCK", 8)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Queries of each call of attention that llama's layers come to."""
    lengths: list[int] = []

    def counting(queries: mx.array, *args: Any, **kwargs: Any) -> mx.array:
        lengths.append(queries.shape[2])
        found: mx.array = scaled_dot_product_attention(queries, *args, **kwargs)
        return found

    monkeypatch.setattr(llama, "scaled_dot_product_attention", counting)
    return lengths


def attend(mask: Any, queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
    # The name as llama's layers see it.
    found: mx.array = llama.scaled_dot_product_attention(
        queries, keys, values, cache=None, scale=0.3, mask=mask
    )
    return found


@pytest.fixture
def model() -> Any:
    """Stands for a model whose modules are llama's."""
    return SimpleNamespace(modules=lambda: [llama.Attention.__new__(llama.Attention)])


@pytest.mark.parametrize(("length", "past"), [(8, 0), (9, 0), (21, 0), (16, 5), (1, 30)])
def test_outputs_and_gradients_are_the_same(model: Any, length: int, past: int) -> None:
    mx.random.seed(length)
    queries = mx.random.normal((2, 4, length, 6))
    keys, values = (mx.random.normal((2, 2, past + length, 6)) for _ in range(2))
    slope = mx.random.normal((2, 4, length, 6))

    def both(*parts: mx.array) -> list[mx.array]:
        out, grads = mx.vjp(lambda *parts: attend("causal", *parts), list(parts), [slope])
        return [*out, *grads]

    plain = both(queries, keys, values)
    with blocked_attention(model):
        blocked = both(queries, keys, values)
    for one, other in zip(plain, blocked, strict=True):
        assert number(mx.abs(one - other).max()) < 1e-5


def test_only_long_causal_attention_goes_in_blocks(model: Any, asked: list[int]) -> None:
    parts = [mx.zeros((1, 1, 20, 4))] * 3
    with blocked_attention(model):
        attend("causal", *parts)
        attend(mx.zeros((20, 20)), *parts)
        attend(None, *parts)
        attend("causal", *(part[:, :, :8] for part in parts))
    assert asked == [8, 8, 4, 20, 20, 8]


def test_a_model_uses_it_and_its_own_again_afterwards(tmp_path: Path, asked: list[int]) -> None:
    make_model(tmp_path / "model")
    model, _ = load_model(tmp_path / "model")
    tokens = mx.arange(20)[None]
    plain = model(tokens)
    layers = len(model.layers)
    assert asked == [20] * layers
    asked.clear()
    with blocked_attention(model):
        assert number(mx.abs(model(tokens) - plain).max()) < 1e-5
    assert asked == [8, 8, 4] * layers
    asked.clear()
    model(tokens)
    assert asked == [20] * layers
