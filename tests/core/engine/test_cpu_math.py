"""The faster exponentials give what MLX gives, and are used where they are meant for."""

from __future__ import annotations

import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models import llama
from mlx_lm.models.activations import swiglu
from mlx_lm.models.base import scaled_dot_product_attention
from mlx_lm.utils import load_model

from core.engine import cpu_math
from core.engine.cpu_math import attention_like, hasten
from tests.tiny import make_model

pytestmark = pytest.mark.skipif(mx.default_device().type != mx.cpu, reason="of CPUs")


@pytest.fixture
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give llama's module mlx-lm's functions, and what it has now back afterwards."""
    monkeypatch.setattr(llama, "scaled_dot_product_attention", scaled_dot_product_attention)
    monkeypatch.setattr(llama, "swiglu", swiglu)


def parts(length: int, seen: int, *, groups: int = 2) -> tuple[mx.array, mx.array, mx.array]:
    mx.random.seed(length + seen)
    queries = mx.random.normal((2, 4, length, 8)) * 3
    keys, values = (mx.random.normal((2, groups, seen, 8)) for _ in range(2))
    return queries, keys, values


def masks(length: int, seen: int) -> dict[str, mx.array | str | None]:
    causal = mx.arange(seen - length, seen)[:, None] >= mx.arange(seen)
    padded = causal & (mx.arange(seen) >= mx.array([0, 2])[:, None, None, None])
    by_head = mx.random.bernoulli(0.7, (2, 4, length, seen)) | (mx.arange(seen) == 0)
    masks: dict[str, mx.array | str | None] = {"none": None, "causal": "causal"}
    return masks | {"of places": causal, "padded": padded, "of heads": by_head}


def largest(found: mx.array) -> float:
    value = mx.abs(found).max().item()
    assert isinstance(value, float)
    return value


@pytest.mark.parametrize("kind", ["none", "causal", "of places", "padded", "of heads"])
@pytest.mark.parametrize(("length", "seen"), [(1, 1), (1, 9), (5, 5), (4, 20)])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_attention_is_the_same(kind: str, length: int, seen: int, groups: int) -> None:
    def refuse(*_: Any) -> mx.array:
        raise AssertionError("this one is ours")

    chosen = masks(length, seen)[kind]
    queries, keys, values = parts(length, seen, groups=groups)
    wanted = scaled_dot_product_attention(queries, keys, values, cache=None, scale=0.4, mask=chosen)
    found = attention_like(refuse)(queries, keys, values, cache=None, scale=0.4, mask=chosen)
    visible = ~mx.isnan(wanted)  # of rows that see nothing, as those of padding
    assert found.shape == wanted.shape
    assert found.dtype == mx.float32
    assert largest(mx.where(visible, found - wanted, 0.0)) < 1e-5
    assert not mx.isnan(found).any().item()


def test_scores_far_apart_are_no_numbers_nowhere() -> None:
    queries, keys, values = parts(3, 6)
    wanted = scaled_dot_product_attention(
        queries * 1e4, keys, values, cache=None, scale=1.0, mask="causal"
    )
    found = attention_like(scaled_dot_product_attention)(
        queries * 1e4, keys, values, None, 1.0, "causal"
    )
    assert largest(found - wanted) < 1e-3


def half(length: int, seen: int) -> dict[str, Any]:
    queries, keys, values = (part.astype(mx.float16) for part in parts(length, seen))
    return {"queries": queries, "keys": keys, "values": values}


@pytest.mark.parametrize(
    "more",
    [
        {"mask": mx.zeros((3, 7))},
        {"sinks": mx.zeros((4,))},
        {"cache": SimpleNamespace(bits=8, group_size=32)},
        half(3, 7),
    ],
)
def test_what_it_does_not_know_is_left_to_mlx_lm(more: dict[str, Any]) -> None:
    told: list[tuple[Any, ...]] = []

    def known(*args: Any) -> mx.array:
        told.append(args)
        return mx.zeros(1)

    queries, keys, values = parts(3, 7)
    usual = {"queries": queries, "keys": keys, "values": values, "cache": None, "scale": 1.0}
    attention_like(known)(**(usual | more))
    assert len(told) == 1
    assert len(told[0]) == 7


def test_swiglu_is_the_same_over_all_numbers() -> None:
    gate = mx.concatenate([mx.linspace(-300, 300, 1201), mx.array([-1e30, 0.0, 1e30])])
    x = mx.full(gate.shape, 1.5)
    found = cpu_math._swiglu(gate, x)
    wanted = swiglu(gate, x)
    assert largest((found - wanted) / mx.maximum(1.0, mx.abs(wanted))) < 1e-6


@pytest.mark.usefixtures("own_names")
def test_a_model_computes_so_after_it_is_hastened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_model(tmp_path)
    model, _ = load_model(tmp_path)
    tokens = mx.arange(30)[None]
    plain = model(tokens)
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert not hasten(model)
    assert llama.swiglu is swiglu
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert hasten(model)
    ours = (llama.scaled_dot_product_attention, llama.swiglu)
    assert ours != (scaled_dot_product_attention, swiglu)
    assert largest(model(tokens) - plain) < 1e-4
    assert hasten(model)
    assert (llama.scaled_dot_product_attention, llama.swiglu) == ours
