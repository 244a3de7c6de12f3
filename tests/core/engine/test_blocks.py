"""Models computed layer by layer, for every family that can be built."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from core.engine.blocks import Blocks, NotARowError
from tests.core.fit.tiny_families import build, safe_families

# Families whose layers hand more than hidden states to each other.
_NO_ROW = {
    "afm7", "deepseek_v41", "gemma3n", "gemma4", "gemma4_text", "gptj", "hunyuan",
    "iquestloopcoder", "kimi_k3", "nanbeige", "olmo_hybrid", "rwkv7",
}  # fmt: skip


def _logits(blocks: Blocks, tokens: mx.array) -> mx.array:
    states = blocks.begin(tokens)
    for index in range(len(blocks.layers)):
        states = blocks.through(index, states)
    return blocks.head(blocks.finish(states))


@pytest.mark.parametrize("family", safe_families())
def test_layer_by_layer_is_the_whole_model_or_is_refused(family: str) -> None:
    model: Any = build(family)
    tokens = mx.array([[1, 2, 3, 5, 8], [9, 8, 7, 6, 5]])
    try:
        blocks = Blocks(model)
    except NotARowError:
        assert family in _NO_ROW
        return
    assert family not in _NO_ROW
    expected = model(tokens)
    assert mx.allclose(_logits(blocks, tokens), expected, rtol=1e-4, atol=1e-4).item()


def test_a_trial_of_some_layers_leaves_all_in_place() -> None:
    model = build("llama")
    blocks = Blocks(model, tried=1)
    tokens = mx.array([[4, 3, 2, 1]])
    assert mx.allclose(_logits(blocks, tokens), model(tokens), rtol=1e-4, atol=1e-4).item()


def test_a_mixture_in_half_precision_is_tried_and_keeps_its_type() -> None:
    """MLX multiplies by chosen experts in float32 only, on CPUs."""
    model = build("mixtral")
    model.set_dtype(mx.float16)
    blocks = Blocks(model)
    assert len(blocks.layers) == len(model.layers)
    assert {each.dtype for _, each in tree_flatten(model.parameters())} == {mx.float16}


def test_a_released_layer_holds_nothing() -> None:
    blocks = Blocks(build("llama"))
    blocks.release(0)
    assert sum(array.size for _, array in tree_flatten(blocks.layers[0].parameters())) == 0
