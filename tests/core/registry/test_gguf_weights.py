"""The weights of an imported GGUF are the file's own, and the model computes what they mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn

from core.registry.gguf import import_gguf
from core.registry.gguf.rope import _llama3_factors
from tests.ggufs import HEAD, LAYERS, TinyLlama, quantize, tiny_llama

PACKED = ("Q4_0", "Q4_1", "Q8_0")
KINDS = ("F16", *PACKED)


def _imported(model: TinyLlama, tmp_path: Path) -> tuple[dict[str, Any], dict[str, mx.array]]:
    import_gguf(model.write(tmp_path / "tiny.gguf"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    weights = mx.load(str(tmp_path / "model.safetensors"))
    assert isinstance(weights, dict)
    return config, weights


def _meant(weights: dict[str, mx.array], path: str, bits: int) -> Any:
    packed = weights[f"{path}.weight"]
    if f"{path}.scales" not in weights:
        return np.array(packed.astype(mx.float32))
    # In float32, so that the comparison sees the values and not the rounding of float16.
    scales, biases = (weights[f"{path}.{part}"].astype(mx.float32) for part in ("scales", "biases"))
    return np.array(mx.dequantize(packed, scales, biases, group_size=32, bits=bits))


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_means_what_the_file_says(kind: str, tmp_path: Path) -> None:
    model = tiny_llama(kind, tied=False)
    config, weights = _imported(model, tmp_path)
    quantization = config.get("quantization", {})
    for name, values in model.weights.items():
        path = name.removesuffix(".weight")
        bits = quantization.get(path, {}).get("bits", quantization.get("bits", 0))
        np.testing.assert_allclose(_meant(weights, path, bits), values, rtol=1e-6, atol=1e-6)
    assert {name.rpartition(".")[0] for name in weights} == {
        name.rpartition(".")[0] for name in model.weights
    }


@pytest.mark.parametrize("kind", PACKED)
def test_packed_arrays_are_those_of_mlx(kind: str, tmp_path: Path) -> None:
    model = tiny_llama(kind)
    _, weights = _imported(model, tmp_path)
    theirs = mx.load(str(tmp_path / "tiny.gguf"))
    assert isinstance(theirs, dict)
    for part in ("weight", "scales", "biases"):
        ours = weights[f"model.layers.1.mlp.down_proj.{part}"]
        assert ours.dtype == theirs[f"blk.1.ffn_down.{part}"].dtype
        assert mx.array_equal(ours, theirs[f"blk.1.ffn_down.{part}"])


def _reference_model(model: TinyLlama) -> nn.Module:
    """Return mlx-lm's llama in float32, built from the values that the blocks mean."""
    from mlx_lm.models.llama import Model, ModelArgs

    facts = model.metadata
    reference = Model(
        ModelArgs(
            model_type="llama",
            hidden_size=facts["llama.embedding_length"],
            num_hidden_layers=LAYERS,
            intermediate_size=facts["llama.feed_forward_length"],
            num_attention_heads=facts["llama.attention.head_count"],
            num_key_value_heads=facts["llama.attention.head_count_kv"],
            rms_norm_eps=facts["llama.attention.layer_norm_rms_epsilon"],
            vocab_size=len(facts["tokenizer.ggml.tokens"]),
            tie_word_embeddings="lm_head.weight" not in model.weights,
        )
    )
    reference.load_weights([(name, mx.array(values)) for name, values in model.weights.items()])
    assert isinstance(reference, nn.Module)
    return reference


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", [True, False])
def test_logits_equal_a_float32_reference(kind: str, tied: bool, tmp_path: Path) -> None:
    from mlx_lm.utils import load_model

    model = tiny_llama(kind, tied=tied)
    _imported(model, tmp_path)
    loaded, _ = load_model(tmp_path)
    loaded.set_dtype(mx.float32)
    prompt = mx.array([[5, 77, 258, 31, 90, 260, 12]])
    wanted, got = _reference_model(model)(prompt), loaded(prompt)
    np.testing.assert_allclose(np.array(got), np.array(wanted), rtol=1e-3, atol=1e-3)


def test_layers_of_another_width_are_named_in_the_config(tmp_path: Path) -> None:
    config, _ = _imported(tiny_llama("Q4_1", embedding="Q8_0"), tmp_path)
    other = {"group_size": 32, "bits": 8}
    assert config["quantization"] == {"group_size": 32, "bits": 4, "model.embed_tokens": other}


def test_an_unquantized_model_has_no_quantization(tmp_path: Path) -> None:
    config, _ = _imported(tiny_llama("F16", embedding="F16"), tmp_path)
    assert "quantization" not in config


def test_float32_is_narrowed_only_where_that_is_exact(tmp_path: Path) -> None:
    model = tiny_llama()
    inexact = np.full(64, 0.1, np.float32)
    model.tensors["blk.0.attn_norm.weight"] = quantize("F32", inexact)
    _, weights = _imported(model, tmp_path)
    assert weights["model.layers.1.input_layernorm.weight"].dtype == mx.float16
    kept = weights["model.layers.0.input_layernorm.weight"]
    assert kept.dtype == mx.float32
    assert np.array_equal(np.array(kept), inexact)


def test_llama3_rope_factors_become_its_scaling(tmp_path: Path) -> None:
    from mlx_lm.models.rope_utils import initialize_rope

    model = tiny_llama()
    factors = _llama3_factors(HEAD, 10000.0, 32.0).astype(np.float32)
    model.tensors["rope_freqs.weight"] = quantize("F32", factors)
    config, _ = _imported(model, tmp_path)
    rope = initialize_rope(HEAD, 10000.0, False, config["rope_scaling"], 128)
    wanted = 10000.0 ** (np.arange(0, HEAD, 2) / HEAD) * factors
    np.testing.assert_allclose(np.array(rope._freqs), wanted, rtol=1e-4)


def test_linear_rope_scaling_is_kept(tmp_path: Path) -> None:
    model = tiny_llama()
    model.metadata |= {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    config, _ = _imported(model, tmp_path)
    assert config["rope_scaling"] == {"type": "linear", "factor": 4.0}


def test_decimals_read_as_their_author_wrote_them(tmp_path: Path) -> None:
    config, _ = _imported(tiny_llama(), tmp_path)
    assert config["rms_norm_eps"] == 1e-5
