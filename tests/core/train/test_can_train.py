"""Whether a served model can be trained, found out without computing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model

from core.engine.loader import with_training
from core.train.trial import can_train
from tests.core.engine.test_loader import load_tiny
from tests.core.fit.tiny_families import build
from tests.tiny import make_model


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen3_moe", "mamba2", "gemma3n", "afm7"])
def test_what_trains(family: str) -> None:
    assert can_train(build(family))


@pytest.mark.parametrize("family", ["deepseek_v41", "kimi_k3", "recurrent_gemma"])
def test_what_does_not(family: str) -> None:
    assert not can_train(build(family))


def test_a_model_without_layers_does_not() -> None:
    assert not can_train(nn.Linear(2, 2))


@pytest.mark.parametrize("bits", [None, 4])
def test_the_model_is_as_it_was(tmp_path: Path, bits: int | None) -> None:
    model, _ = load_model(make_model(tmp_path, bits=bits))
    before = _state(model)
    expected = model(mx.array([[1, 2, 3]]))
    peak = mx.get_active_memory()
    mx.reset_peak_memory()
    assert can_train(model)
    assert mx.get_peak_memory() - peak < 100_000  # nothing was computed
    assert _state(model) == before
    assert mx.array_equal(model(mx.array([[1, 2, 3]])), expected)


def _state(model: Any) -> tuple[list[tuple[str, int]], list[str]]:
    arrays = [(name, id(array)) for name, array in tree_flatten(model.parameters())]
    return arrays, [f"{type(m).__name__} {m.training}" for m in model.modules()]


def test_the_loader_asks_if_somebody_wants_to_know(tmp_path: Path) -> None:
    folder = make_model(tmp_path)
    loaded = load_tiny(folder)
    assert loaded.info.trainable is None
    assert with_training(loaded, can_train).info.trainable is True


def test_an_adapter_on_the_model_is_no_obstacle(tmp_path: Path) -> None:
    model, _ = load_model(make_model(tmp_path))
    keys = {"rank": 2, "scale": 1.0, "dropout": 0.0}
    linear_to_lora_layers(model, 2, keys)
    model.eval()
    before = _state(model)
    assert can_train(model)
    assert _state(model) == before
