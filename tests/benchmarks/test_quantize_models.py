"""The reference models of quantizations compute what the starter computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_map
from mlx_lm.utils import load_model

from benchmarks.quantize_models import EXPERTS, dequantized, write_reference
from tests.tiny import llama_config, make_model

_TOKENS = mx.array([[5, 60, 33, 200, 101, 7, 7, 90, 14, 77]])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a packed llama with two KV heads for four heads, in groups of 32."""
    config = llama_config(
        hidden_size=128, intermediate_size=192, num_attention_heads=4, head_dim=32
    )
    return make_model(tmp_path / "source", config=config, bits=4)


def _loaded(folder: Path) -> Any:
    model, _ = load_model(folder)
    model.update(
        tree_map(
            lambda each: (
                each.astype(mx.float32) if mx.issubdtype(each.dtype, mx.floating) else each
            ),
            model.parameters(),
        )
    )
    return model


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_a_rewritten_model_computes_the_same_function(
    source: Path, tmp_path: Path, kind: str
) -> None:
    folder = write_reference(source, tmp_path / kind, kind)
    expected, found = _loaded(source)(_TOKENS), _loaded(folder)(_TOKENS)
    assert json.loads((folder / "config.json").read_text())["model_type"] == kind
    # The float16 of the rewritten weights rounds products of a scale and a code.
    assert mx.allclose(found, expected, rtol=1e-2, atol=1e-2 * float(mx.abs(expected).max())).item()


def test_permutations_alone_change_nothing(source: Path, tmp_path: Path) -> None:
    models = [
        _loaded(write_reference(source, tmp_path / str(seed), "llama", seed=seed))
        for seed in (1, 2)
    ]
    one, other = (model(_TOKENS) for model in models)
    assert mx.allclose(one, other, rtol=1e-4, atol=1e-4).item()
    first = [model.model.layers[0].mlp.down_proj.weight for model in models]
    assert not mx.array_equal(*first).item()


def test_the_last_expert_of_the_mixture_is_never_chosen(source: Path, tmp_path: Path) -> None:
    model = _loaded(write_reference(source, tmp_path / "mixtral", "mixtral"))
    expected = _loaded(source)(_TOKENS)
    found = model(_TOKENS)
    assert float(mx.abs(found - expected).mean()) < 0.2 * float(mx.abs(expected).mean())
    for layer in model.layers:
        states = mx.random.normal((4096, 128), key=mx.random.key(1))
        chosen = np.array(mx.argmax(layer.block_sparse_moe.gate(states), axis=-1))
        assert set(chosen.tolist()) == set(range(EXPERTS - 1))
        weights = layer.block_sparse_moe.switch_mlp.up_proj.weight
        assert not mx.array_equal(weights[0], weights[EXPERTS - 1]).item()


@pytest.mark.slow
@pytest.mark.starter
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_the_starter_computes_the_same_after_it_is_rewritten(
    starter_folder: Path, tmp_path: Path, kind: str
) -> None:
    model = _loaded(write_reference(starter_folder, tmp_path / kind, kind))
    found = model(_TOKENS)
    config = json.loads((starter_folder / "config.json").read_text())
    weights = dequantized(starter_folder, config)
    model.load_weights([(n, w.astype(mx.float32)) for n, w in weights.items()], strict=False)
    expected = model(_TOKENS)
    assert float(mx.abs(found - expected).max()) < 1e-4 * float(mx.abs(expected).max())
