"""Rotated models compute what they computed before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from core.errors import UsageProblem
from core.quantize.rotate import residual, trial
from core.quantize.rotate.roles import READERS
from core.quantize.rotate.rotating import check_rotation, rotate
from tests.core.fit.tiny_families import build, safe_families, tiny_config
from tests.core.quantize.rotate.forward import logits
from tests.core.quantize.rotate.models import CONFIGS, small_model, stirred
from tests.tiny import llama_config, write_tokenizer

_TEXT = [5, 77, 3, 250, 19, 42, 42, 8, 131, 64, 7, 99]
# Architectures whose residual stream cannot be rotated, for one reason or another.
_NO_RESIDUAL = {
    "afm7", "afmoe", "bailing_moe_v3", "cohere", "cohere2", "dbrx", "deepseek_v41", "exaone4",
    "falcon_h1", "gear", "gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma4",
    "gemma4_text", "glm4", "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "helium", "hunyuan",
    "kimi_k3", "lfm2", "lfm2-vl", "lfm2_moe", "lille-130m", "longcat_flash",
    "longcat_flash_ngram", "minimax_m3_vl", "muse_glimmer", "nanbeige", "nemotron", "olmo2",
    "olmo3", "olmo_hybrid", "openelm", "phi", "phimoe", "phixtral", "plamo", "plamo2", "plamo3",
    "rwkv7", "stablelm", "starcoder2", "talkie",
}  # fmt: skip
# Those without attention whose values can be rotated.
_NO_VALUES = {
    "afm7", "afmoe", "baichuan_m1", "bailing_hybrid", "bailing_moe_linear", "bailing_moe_v3",
    "dbrx", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v41", "gemma3n", "gemma4",
    "glm4_moe_lite", "glm_moe_dsa", "gpt_neox", "hunyuan", "internlm2", "kimi_k25", "kimi_k3",
    "kimi_linear", "kimi_vl", "longcat_flash", "longcat_flash_ngram", "mamba", "mamba2",
    "minicpm3", "mistral4", "muse_glimmer", "nanochat", "phixtral", "plamo", "plamo2", "plamo3",
    "qwen3_5", "qwen3_5_moe", "qwen3_next", "rwkv7", "spark2_5", "talkie", "youtu_llm",
}  # fmt: skip
_SAMPLE = [
    "deepseek_v3", "ernie4_5_moe", "exaone", "falcon_h1", "gemma2", "glm4", "gpt2", "gpt_oss",
    "granite", "jamba", "minicpm", "olmo2", "olmoe", "qwen2_moe", "qwen3_next", "rwkv7",
]  # fmt: skip


@pytest.mark.parametrize("small", [False, True], ids=["residual", "values"])
@pytest.mark.parametrize("name", CONFIGS)
def test_the_output_stays_the_same_in_float64(name: str, small: bool) -> None:
    config = CONFIGS[name]
    model = small_model(config, dtype=mx.float64)
    before = logits(model, config, _TEXT)
    rotated = rotate(model, config, seed=11, small=small)
    assert rotated.config["tie_word_embeddings"] == (small and config["tie_word_embeddings"])
    changed = [
        path
        for path, array in tree_flatten(rotated.model.parameters())
        if not _same(array, dict(tree_flatten(model.parameters())).get(path))
    ]
    assert len(changed) >= (4 if small else 15)
    after = logits(rotated.model, rotated.config, _TEXT)
    assert np.abs(after - before).max() < 1e-6 * np.abs(before).max()


def _same(array: mx.array, other: mx.array | None) -> bool:
    return other is not None and bool(mx.array_equal(array, other, stream=mx.cpu).item())


@pytest.mark.parametrize("name", ["llama tied", "qwen3", "mixtral", "granite"])
def test_our_forward_is_that_of_mlx_lm(name: str) -> None:
    model = small_model(CONFIGS[name])
    expected = np.array(model(mx.array([_TEXT]))[0])
    assert np.abs(logits(model, CONFIGS[name], _TEXT) - expected).max() < 1e-4


def test_the_original_stays_and_the_same_seed_gives_the_same_bytes() -> None:
    config = CONFIGS["llama tied"]
    model = small_model(config, dtype=mx.bfloat16)
    before = logits(model, config, _TEXT)
    one, two, other = (rotate(model, config, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(logits(model, config, _TEXT), before)
    assert config["tie_word_embeddings"]
    arrays, again, different = (
        dict(tree_flatten(each.model.parameters())) for each in (one, two, other)
    )
    assert all(array.dtype == mx.bfloat16 for array in arrays.values())
    assert all(_same(array, again[path]) for path, array in arrays.items())
    assert not _same(arrays["lm_head.weight"], different["lm_head.weight"])


@pytest.mark.parametrize("small", [False, True], ids=["residual", "values"])
def test_a_second_rotation_needs_no_trial(small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    config = CONFIGS["qwen2"]
    model = small_model(config)
    first = rotate(model, config, seed=1, small=small)
    monkeypatch.setattr("core.quantize.rotate.rotating.difference", None)
    again = rotate(model, config, seed=1, small=small, values=first.values)
    arrays = dict(tree_flatten(again.model.parameters()))
    assert all(_same(a, arrays[path]) for path, a in tree_flatten(first.model.parameters()))


def test_norms_are_folded_and_the_copy_is_named() -> None:
    config = CONFIGS["llama tied"]
    rotated = rotate(small_model(config), config, seed=1)
    arrays = dict(tree_flatten(rotated.model.parameters()))
    assert all(mx.all(array == 1).item() for path, array in arrays.items() if "norm" in path)
    assert arrays["lm_head.weight"].shape == arrays["model.embed_tokens.weight"].shape
    assert "16.6k more weights (18%)" in " ".join(rotated.notes)


def test_outliers_shrink_and_four_bits_lose_less() -> None:
    config = llama_config(hidden_size=128, tie_word_embeddings=False)
    model = small_model(config)
    for layer in model.model.layers:  # some columns stick out, which costs their groups precision
        layer.mlp.down_proj.weight[3] *= 30
        for linear in (layer.mlp.gate_proj, layer.mlp.up_proj):
            linear.weight[:, 5::64] *= 30
        layer.post_attention_layernorm.weight[5::64] /= 30
        layer.self_attn.o_proj.weight[:, 7::64] *= 30
        layer.self_attn.v_proj.weight[7::64] /= 30
    rotated = rotate(model, config, seed=1).model
    for path in ("mlp.down_proj", "mlp.up_proj", "self_attn.o_proj"):
        assert _peak(rotated, path) < 0.5 * _peak(model, path)
    tokens = mx.array([_TEXT])
    losses = []
    for each in (model, rotated):
        exact = each(tokens)
        nn.quantize(each.model, group_size=64, bits=4)
        losses.append(float(np.square(np.array(each(tokens) - exact)).mean()))
    assert losses[1] < 0.5 * losses[0]


def _peak(model: Any, path: str) -> float:
    """Return the largest weight of a linear layer in units of the mean square's root."""
    arrays = dict(tree_flatten(model.parameters()))
    weight = np.array(arrays[f"model.layers.0.{path}.weight"])
    return float(np.abs(weight).max() / np.sqrt(np.square(weight).mean()))


@pytest.mark.parametrize("name", ["llama tied", "mixtral"])
def test_a_rotated_and_packed_model_loads_in_plain_mlx_lm(name: str, tmp_path: Path) -> None:
    config = CONFIGS[name]
    rotated = rotate(small_model(config, dtype=mx.float16), config, seed=1)
    nn.quantize(rotated.model, group_size=32, bits=4)
    arrays = dict(tree_flatten(rotated.model.parameters()))
    mx.save_safetensors(str(tmp_path / "model.safetensors"), arrays, metadata={"format": "mlx"})
    packed = rotated.config | {"quantization": {"group_size": 32, "bits": 4}}
    (tmp_path / "config.json").write_text(json.dumps(packed))
    write_tokenizer(tmp_path, chat_template=None)
    loaded, _ = mlx_lm.load(str(tmp_path))
    tokens = mx.array([_TEXT])
    assert mx.array_equal(loaded(tokens), rotated.model(tokens)).item()


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        ("gemma2", "norms after attention and MLP"),
        ("olmo2", "norms after attention and MLP"),
        ("glm4", "norms after attention and MLP"),
        ("cohere", "subtract the mean"),
        ("gpt2", "subtract the mean"),
        ("gemma", "logits with the embedding"),
    ],
)
def test_config_alone_is_enough_to_refuse(family: str, reason: str) -> None:
    with pytest.raises(UsageProblem, match=f"residual stream of {family} .*{reason}"):
        check_rotation({"model_type": family})
    check_rotation({"model_type": family}, small=True)


def test_models_that_see_are_refused_unless_only_values_are_rotated() -> None:
    config = {"model_type": "qwen2_vl", "vision_config": {"depth": 2}}
    with pytest.raises(UsageProblem, match="vision tensors"):
        check_rotation(config)
    check_rotation(config, small=True)
    check_rotation(config, text_only=True)


def test_tensors_that_would_stay_unrotated_are_refused() -> None:
    config = CONFIGS["llama untied"]
    with pytest.raises(UsageProblem, match=r"1 tensors .* model\.mtp\.weight"):
        rotate(small_model(config), config, seed=1, unread=["model.mtp.weight"])


def test_a_quantized_model_is_refused() -> None:
    model = small_model(CONFIGS["llama untied"])
    nn.quantize(model, group_size=32, bits=4)
    with pytest.raises(UsageProblem, match=r"is quantized"):
        rotate(model, CONFIGS["llama untied"], seed=1)


@pytest.mark.parametrize("forgotten", ["up_proj", "gate", "k_proj"])
def test_a_forgotten_tensor_is_found_by_trying(
    forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residual, "READERS", READERS - {forgotten})
    config = CONFIGS["mixtral"]
    with pytest.raises(UsageProblem, match=r"mixtral .* logits differ"):
        rotate(small_model(config), config, seed=1)


def test_a_forgotten_bias_is_found_by_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = residual._block_steps

    def without(*args: Any) -> Any:
        return {path: step for path, step in whole(*args).items() if not path.endswith("bias")}

    monkeypatch.setattr(residual, "_block_steps", without)
    config = CONFIGS["llama with biases"]
    with pytest.raises(UsageProblem, match=r"llama .* logits differ"):
        rotate(small_model(config), config, seed=1)


def test_a_large_model_is_tried_with_one_layer_of_each_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial, "_WHOLE", 0)
    model = stirred(build("deepseek_v3"))
    assert trial._chosen(model) == [0, 1]
    assert rotate(model, tiny_config("deepseek_v3"), seed=1).notes
    monkeypatch.setattr(residual, "READERS", READERS - {"up_proj"})
    with pytest.raises(UsageProblem, match=r"logits differ"):
        rotate(model, tiny_config("deepseek_v3"), seed=1)


def test_layers_stay_on_disk_until_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_WHOLE", 0)
    config = llama_config(
        hidden_size=256, intermediate_size=1024, num_hidden_layers=12, tie_word_embeddings=False
    )
    file = str(tmp_path / "model.safetensors")
    mx.save_safetensors(file, dict(tree_flatten(small_model(config).parameters())))
    model = small_model(config | {"num_hidden_layers": 12})
    model.load_weights(file)
    size = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
    mx.synchronize()
    before = mx.get_active_memory()
    rotated = rotate(model, config, seed=1).model
    assert mx.get_active_memory() - before < 0.4 * size
    del model
    for layer in rotated.model.layers:
        mx.eval(layer.parameters())
        layer.update({"mlp": {}, "self_attn": {}})
        layer.clear()
    assert mx.get_active_memory() - before < 0.4 * size


def test_a_sample_of_families_is_rotated_or_refused_by_name() -> None:
    for family in _SAMPLE:
        _rotate_or_refuse(family)


@pytest.mark.slow  # two minutes: every family of mlx-lm
@pytest.mark.parametrize("family", safe_families())
def test_every_family_is_rotated_or_refused_by_name(family: str) -> None:
    _rotate_or_refuse(family)


def _rotate_or_refuse(family: str) -> None:
    mx.random.seed(1)
    model = stirred(build(family))
    for small, refused in ((False, _NO_RESIDUAL), (True, _NO_VALUES)):
        if family in refused:
            with pytest.raises(UsageProblem, match=tiny_config(family)["model_type"]):
                rotate(model, tiny_config(family), seed=1, small=small)
        else:
            assert rotate(model, tiny_config(family), seed=1, small=small).notes
