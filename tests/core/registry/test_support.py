"""What is not run has its reason in words, and what mlx-lm loads is not called unsupported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.registry.architectures import Architectures, find_mlx_lm, read_architectures
from core.registry.facts import read_facts
from core.registry.forms import kind_of_folder
from core.registry.support import judge
from tests.caches import Tensors, safetensors
from tests.tiny import llama_config, make_model


@pytest.fixture(scope="module")
def known() -> Architectures:
    return read_architectures(find_mlx_lm())


def _verdict(
    known: Architectures,
    folder: Path,
    config: dict[str, Any],
    tensors: Tensors | None = None,
    files: dict[str, bytes] | None = None,
) -> tuple[bool, str | None]:
    module = known.module_for(str(config.get("model_type")), config.get("architectures", ()))
    whole = {**dict.fromkeys(known.required.get(module or "", ()), 1), **config}
    (folder / "config.json").write_text(json.dumps(whole))
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    for name, data in (files or {}).items():
        (folder / name).write_bytes(data)
    verdict = judge(read_facts(folder), known)
    return verdict.supported, verdict.reason or verdict.note


def _packed(method: str, **more: Any) -> dict[str, Any]:
    return {"model_type": "llama", "quantization_config": {"quant_method": method, **more}}


@pytest.mark.parametrize(
    ("model_type", "kept", "told"),
    [
        ("llama", 7, None),
        ("mistral", 6, "config.json has no vocab_size"),  # a llama by another name
        ("llama", 4, "config.json has no num_attention_heads, rms_norm_eps, vocab_size"),
        (
            "llama",
            1,
            "config.json has no hidden_size, num_hidden_layers, intermediate_size and 3 more",
        ),
        ("gemma3", 1, "config.json has no text_config"),
        ("gemma3_text", 1, None),  # all has a default
        ("qwen2_5_vl", 1, None),  # it takes them from elsewhere, or not at all
    ],
)
def test_keys_that_mlx_lm_cannot_do_without(
    known: Architectures, tmp_path: Path, model_type: str, kept: int, told: str | None
) -> None:
    module = known.module_for(model_type) or ""
    keys = known.required.get(module, ("model_type",))[:kept]
    config = {**dict.fromkeys(keys, 1), "model_type": model_type}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(safetensors())
    assert judge(read_facts(tmp_path), known).reason == told


TEXT_PART = "its text part alone is loaded"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, None),
        ({"model_type": "llama", "quantization": {"bits": 4, "group_size": 64}}, None),
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, None),
        ({"model_type": "gemma3", "vision_config": {"a": 1}}, TEXT_PART),
        ({"model_type": "qwen2_5_vl", "image_token_id": 5}, TEXT_PART),
        (_packed("mxfp4"), None),
        (_packed("mxfp8"), None),
        (_packed("bitnet"), None),
        (_packed("fp8", scale_fmt="ue8m0", weight_block_size=[32, 32]), None),
        (_packed("fp8") | {"model_type": "deepseek_v3"}, None),
        (_packed("fp8") | {"model_type": "mistral3"}, None),
        (_packed("compressed-tensors", format="pack-quantized"), None),
        (_packed("modelopt", quant_algo="NVFP4"), None),
        (_packed("awq", bits=4), "AWQ weights, packed anew when they are loaded"),
    ],
    ids=str,
)
def test_what_is_supported(
    known: Architectures, config: dict[str, Any], told: str | None, tmp_path: Path
) -> None:
    assert _verdict(known, tmp_path, config) == (True, told)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "names no model_type"),
        ({"model_type": "perceptron"}, "does not load the type perceptron"),
        ({"model_type": "bert"}, "it is an encoder"),
        ({"model_type": "whisper"}, "it is a speech model"),
        ({"model_type": "clip"}, "it is a vision model"),
        ({"model_type": "t5"}, "it is an encoder-decoder model"),
        ({"model_type": "qwen2", "architectures": ["Qwen2Model"]}, "it is an embedding model"),
        (
            {"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]},
            "it is a classifier",
        ),
        ({"model_type": "llama", "model_file": "x.py"}, "Python code of its own"),
        ({"model_type": "llama", "quantization": {"bits": 4}}, "quantization is malformed"),
        ({"model_type": "llama", "quantization": "q"}, "quantization is malformed"),
        ({"model_type": "llama", "quantization_config": {"bits": 4}}, "names no quant_method"),
        (_packed("gptq", bits=4), "packed by GPTQ"),
        (_packed("awq", bits=8), "do not have 4 bits"),
        (_packed("bitsandbytes"), "packed by bitsandbytes"),
        (_packed("fp8", weight_block_size=[128, 128]), "FP8, which mlx-lm does not load for llama"),
        (_packed("compressed-tensors", format="float-quantized"), "format float-quantized"),
        (_packed("modelopt", quant_algo="FP8"), "NVFP4 only"),
        (_packed("\x1b[2J" * 100), "which mlx-lm does not load"),
    ],
    ids=str,
)
def test_what_is_not(
    known: Architectures, config: dict[str, Any], words: str, tmp_path: Path
) -> None:
    supported, reason = _verdict(known, tmp_path, config)
    assert not supported
    assert words in str(reason)
    assert str(reason).isprintable()


def test_group_indices_are_not_loaded(known: Architectures, tmp_path: Path) -> None:
    tensors: Tensors = {"a.qweight": ("I32", (8, 8)), "a.g_idx": ("I32", (64,))}
    supported, reason = _verdict(known, tmp_path, _packed("awq", bits=4), tensors)
    assert (supported, reason) == (
        False,
        "its weights are packed by AWQ with group indices, which mlx-lm does not load",
    )


def test_a_sentence_transformer_is_none(known: Architectures, tmp_path: Path) -> None:
    config = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
    supported, reason = _verdict(known, tmp_path, config, files={"modules.json": b"[]"})
    assert not supported
    assert "embedding model" in str(reason)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["model_index.json", "unet.safetensors"], "diffusers pipeline"),
        (["adapter_config.json", "adapter_model.safetensors"], "an adapter"),
        (["config.json", "adapters.safetensors"], "an adapter"),
        (["x.gguf"], "GGUF files"),
        (["config.json", "pytorch_model.bin"], "PyTorch files"),
        (["config.json", "weights.npz"], "NumPy files"),
        (["config.json", "model.onnx"], "ONNX files"),
        (["config.json", "consolidated.safetensors"], "not named model*.safetensors"),
        (["config.json"], "no safetensors weights"),
        ([], "config.json is missing"),
    ],
)
def test_other_weights_are_named(
    known: Architectures, names: list[str], words: str, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).write_text("{}")
    verdict = judge(read_facts(tmp_path), known)
    assert not verdict.supported
    assert words in str(verdict.reason)


def test_weights_that_the_index_calls_otherwise(known: Architectures, tmp_path: Path) -> None:
    index = {"weight_map": {"a": "weights.00.safetensors"}}
    files = {
        "weights.00.safetensors": safetensors(),
        "model.safetensors.index.json": json.dumps(index).encode(),
    }
    supported, reason = _verdict(known, tmp_path, {"model_type": "llama"}, files=files)
    assert not supported
    assert "weights.00.safetensors" in str(reason)


@pytest.mark.parametrize(
    ("classes", "generates"),
    [
        ([], True),
        (["LlamaForCausalLM"], True),
        (["GPT2LMHeadModel"], True),
        (["ChatGLMModel"], True),
        (["InternVLChatModel"], True),
        (["MistralModel"], False),
        (["MistralModel", "MistralForCausalLM"], True),
        (["BertForTokenClassification"], False),
    ],
)
def test_classes_that_generate(classes: list[str], generates: bool) -> None:
    assert (kind_of_folder([], classes) is None) == generates


def test_awq_weights_are_really_loaded(known: Architectures, tmp_path: Path) -> None:
    """AutoAWQ keeps `qweight` as [in, out / 8], eight numbers in an order of its own."""
    import mlx.core as mx
    from mlx_lm.utils import load_model

    config = llama_config(hidden_size=128, intermediate_size=128)
    make_model(tmp_path, config=config)
    file = str(tmp_path / "model.safetensors")
    weights = mx.load(file)
    assert isinstance(weights, dict)
    random = np.random.default_rng(0)
    path = "model.layers.0.self_attn.q_proj"
    numbers = random.integers(0, 16, (128, 128))
    zeros = random.integers(0, 16, (1, 128))
    scales = random.random((1, 128)).astype(np.float16)
    weights = {name: a.astype(mx.float16) for name, a in weights.items() if path not in name}
    weights[f"{path}.qweight"] = mx.array(_awq(numbers))
    weights[f"{path}.qzeros"] = mx.array(_awq(zeros))
    weights[f"{path}.scales"] = mx.array(scales)
    mx.save_safetensors(file, weights)
    settings = {"quant_method": "awq", "bits": 4, "group_size": 128}
    (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": settings}))
    assert judge(read_facts(tmp_path), known).supported
    layer = load_model(tmp_path)[0].model.layers[0].self_attn.q_proj
    loaded = mx.dequantize(layer.weight, layer.scales, layer.biases, layer.group_size, layer.bits)
    meant = ((numbers - zeros) * scales).T
    assert np.allclose(np.array(loaded.astype(mx.float32)), meant, atol=0.02)


def _awq(numbers: Any) -> Any:
    packed = np.zeros((numbers.shape[0], numbers.shape[1] // 8), np.uint32)
    for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
        packed |= numbers[:, column::8].astype(np.uint32) << (4 * place)
    return packed.view(np.int32)
