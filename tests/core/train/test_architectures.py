"""Gradients on many architectures: every way to save memory gives the plain ones, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx
import numpy as np
import pytest

from core.engine.split import split_model
from core.errors import UsageProblem
from core.train import attention, backward
from core.train.arrays import number
from core.train.config import PROJECTIONS
from core.train.encode import Item
from core.train.lora import Arrays, find_targets, mount, set_trainable, trainable
from core.train.model import TrainModel
from core.train.step import Stepper
from core.train.trial import check_gradients
from tests.core.fit.tiny_families import build, families, tiny_config
from tests.core.train.test_math import PAIRS, ROWS, config, everything, largest_difference

# What people train, and what is built in a way of its own.
_OFTEN = [
    "llama", "qwen2", "qwen3", "gemma2", "gemma3_text", "gemma3n", "phi3", "cohere2", "stablelm",
    "gpt2", "gptj", "mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "gpt_oss", "deepseek_v3",
    "minimax_m3_vl", "mamba2", "lfm2", "falcon_h1", "granitemoehybrid", "qwen3_next",
    "olmo_hybrid", "afm7",
]  # fmt: skip
# phi3small writes beyond its vocabulary where that is tiny; the others have no gradients.
_NOT = {"phi3small", "deepseek_v41", "recurrent_gemma", "rwkv7", "kimi_k3"}
# 2 minutes on two cores.
_REST = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in families()
    if name not in _NOT and name not in _OFTEN
]
_SAVERS = ({"grad_checkpoint": True}, {"segment_size": 2}, {"mlp_split": True})
_CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sft", {"chunk_size": 3}),
    *(("sft", saver) for saver in _SAVERS),
    ("dpo", {"segment_size": 3}),
    ("orpo", {}),  # prompts shared, where that can be
    ("orpo", {"grad_checkpoint": True}),
)
_PLAIN: dict[str, dict[str, Any]] = {"sft": {}, "dpo": {}, "orpo": {"orpo_prefix_shared": False}}
_NEAR = 1e-5  # of the largest gradient, where that is beyond 1

# What is refused: layers that are no plain row, that hand on more than their outputs, or that have
# no part for each token by itself.
_REFUSED: dict[str, set[str]] = {
    "gptj": {"segment_size"},
    "afm7": {"segment_size", "grad_checkpoint"},
    "mamba2": {"mlp_split"},
}


@dataclass
class _Made:
    """As much of a `TrainModel` as gradients need."""

    model: Any
    split: Any
    config: dict[str, Any]

    @property
    def as_trained(self) -> TrainModel:
        return cast("TrainModel", self)


def made(family: str) -> _Made:
    mx.random.seed(0)
    model = build(family)
    mx.eval(model.parameters())
    split = split_model(model)
    targets = find_targets(model, PROJECTIONS, 0)
    mount(model, {t.path: 3 for t in targets}, scale=2.0, rs_lora=False, dropout=0.0, seed=1)
    dice = np.random.default_rng(0)
    spread = {
        name: value + mx.array(0.05 * dice.standard_normal(value.shape), dtype=mx.float32)
        for name, value in trainable(model).items()
    }
    set_trainable(model, spread)
    return _Made(model=model, split=split, config=tiny_config(family))


def gradients(trained: _Made, **fields: Any) -> tuple[float, Arrays]:
    items: tuple[Item, ...] = ROWS if fields.get("method", "sft") == "sft" else PAIRS
    stepper = Stepper(config(**fields), trained.model, trained.split)
    result, grads = stepper.gradients(items, everything(items), 1)
    return result.loss, grads


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Have MLPs and attention go in pieces of 4 tokens, or whole."""

    def set_sizes(yes: bool) -> None:
        monkeypatch.setattr(backward, "_PIECE", 4 if yes else 10**6)
        monkeypatch.setattr(attention, "_BLOCK", 4 if yes else 10**6)

    return set_sizes


@pytest.mark.parametrize("family", [*_OFTEN, *_REST])
def test_all_ways_give_the_same_gradients(family: str, in_pieces: Callable[[bool], None]) -> None:
    trained = made(family)
    refused = {name for saver in _SAVERS for name in saver if is_refused(trained, saver)}
    if family in _OFTEN:
        assert refused == _REFUSED.get(family, set())
    in_pieces(False)
    plain = {method: gradients(trained, method=method, **_PLAIN[method]) for method in _PLAIN}
    in_pieces(True)
    for method, way in _CASES:
        if refused.isdisjoint(way):
            loss, wanted = plain[method]
            found = gradients(trained, method=method, **way)
            most = max(number(mx.abs(g).max()) for g in wanted.values())
            assert found[0] == pytest.approx(loss, abs=_NEAR, rel=_NEAR), (method, way)
            assert largest_difference(found[1], wanted) < _NEAR * max(1, most), (method, way)


def is_refused(trained: _Made, way: dict[str, Any]) -> bool:
    try:
        check_gradients(config(**way), trained.as_trained)
    except UsageProblem:
        return True
    return False


@pytest.mark.parametrize("saver", ["segment_size", "grad_checkpoint", "mlp_split"])
def test_a_refusal_has_a_reason(saver: str) -> None:
    trained = made("mamba2" if saver == "mlp_split" else "afm7")
    told = r"this architecture \(afm7\)|with this architecture: its layers|this model have no MLP"
    with pytest.raises(UsageProblem, match=told):
        check_gradients(
            config(**{saver: 1 if saver == "segment_size" else True}), trained.as_trained
        )


@pytest.mark.parametrize("family", ["deepseek_v41", "kimi_k3"])
def test_what_has_no_gradient_is_refused(family: str) -> None:
    with pytest.raises(UsageProblem, match=f"The architecture {family} cannot be trained"):
        check_gradients(config(), made(family).as_trained)
