"""A model of mlx-lm, written as GGUF by the package `gguf` and imported, computes the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from core.errors import BadModelFiles
from core.registry.gguf import Wishes, import_gguf, prepare, write
from tests.gguf_models import CONFIGS, CONTEXT, HEAD, KINDS, STEPS, Written, as_gguf, random_model

PROMPT = [[5, 77, 258, 31, 90, 260, 12, 40, 41, 42, 43, 44]]
PACKED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4")
ALL = (*KINDS, *STEPS)


def _loaded(written: Written, tmp_path: Path, wishes: Wishes | None = None) -> Any:
    """Import a file and load what came of it by plain mlx-lm, in float32."""
    from mlx_lm.utils import load_model

    folder = tmp_path / "model"
    folder.mkdir()
    write(prepare(written.write(tmp_path / "tiny.gguf"), wishes), folder)
    model, _ = load_model(folder)
    model.set_dtype(mx.float32)
    return model


def _logits(model: Any) -> Any:
    return np.array(model(mx.array(PROMPT)))


def _meaning(model: Any, written: Written) -> Any:
    """Return the logits of a model with the values that a file's bytes mean."""
    model.load_weights([(name, mx.array(value)) for name, value in written.meant.items()])
    return _logits(model)


@pytest.mark.parametrize("arch", CONFIGS)
def test_float32_computes_the_same(arch: str, tmp_path: Path) -> None:
    model = random_model(arch)
    loaded = _loaded(as_gguf(arch, model), tmp_path)
    np.testing.assert_allclose(_logits(loaded), _logits(model), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("arch", CONFIGS)
@pytest.mark.parametrize("kind", ["Q5_0", "Q6_K"])
def test_blocks_compute_what_they_mean(arch: str, kind: str, tmp_path: Path) -> None:
    _check_meaning(arch, kind, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("arch", CONFIGS)
@pytest.mark.parametrize("kind", ALL)
def test_every_kind_in_every_family(arch: str, kind: str, tmp_path: Path) -> None:
    _check_meaning(arch, kind, tmp_path)


def _check_meaning(arch: str, kind: str, tmp_path: Path) -> None:
    model = random_model(arch)
    written = as_gguf(arch, model, kind)
    loaded = _loaded(written, tmp_path)
    if kind not in (*PACKED, "F32", "F16", "BF16"):
        config = json.loads((tmp_path / "model" / "config.json").read_text())
        dtype = getattr(mx, config["torch_dtype"])
        assert (dtype == mx.bfloat16) == arch.startswith("gemma")
        written.meant = {
            name: np.array(mx.array(value).astype(dtype).astype(mx.float32))
            if value.ndim > 1
            else value
            for name, value in written.meant.items()
        }
    np.testing.assert_allclose(_logits(loaded), _meaning(model, written), atol=1e-4, rtol=1e-4)


def _unpacked(folder: Path) -> dict[str, Any]:
    """Return every tensor of a folder as float32, computed from its scales and biases."""
    config = json.loads((folder / "config.json").read_text())
    weights: Any = mx.load(str(folder / "model.safetensors"))
    found = {}
    for name in (name for name in weights if not name.endswith((".scales", ".biases"))):
        path = name.removesuffix(".weight")
        value = weights[name]
        if (scales := weights.get(f"{path}.scales")) is not None:
            form = {"mode": "affine", **config["quantization"]}
            form |= config["quantization"].get(path, {})
            biases = weights.get(f"{path}.biases")
            if biases is not None:
                scales, biases = scales.astype(mx.float32), biases.astype(mx.float32)
            settings = {key: form[key] for key in ("group_size", "bits", "mode")}
            value = mx.dequantize(value, scales, biases, **settings)
        found[name] = np.array(value.astype(mx.float32))
    return found


@pytest.mark.parametrize("kind", ALL)
def test_every_value_is_that_of_the_package(kind: str, tmp_path: Path) -> None:
    written = as_gguf("llama", random_model("llama"), kind)
    import_gguf(written.write(tmp_path / "tiny.gguf"), tmp_path)
    found = _unpacked(tmp_path)
    assert found.keys() == written.meant.keys()
    exact = kind in (*PACKED, *KINDS)
    for name, value in written.meant.items():
        wanted = value if exact or value.ndim == 1 else value.astype(np.float16)
        np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", PACKED)
def test_what_mlx_packs_alike_stays_packed(kind: str, tmp_path: Path) -> None:
    prepared = prepare(as_gguf("qwen3", random_model("qwen3"), kind).write(tmp_path / "t.gguf"))
    (fate,) = [found for found in prepared.outcomes if found.kind == kind]
    assert (fate.reason, fate.tensors) == ("kept", 2 + 7 * 2)
    assert fate.stored == ("mxfp4" if kind == "MXFP4" else f"{kind[1]}-bit g32")
    quantization = json.loads(prepared.files["config.json"])["quantization"]
    assert quantization["bits"] == (4 if kind == "MXFP4" else int(kind[1]))


@pytest.mark.parametrize(("most", "other"), [("MXFP4", "Q8_0"), ("Q5_1", "MXFP4")])
def test_forms_of_two_modes_in_one_model(most: str, other: str, tmp_path: Path) -> None:
    model = random_model("llama")
    written, others = as_gguf("llama", model, most), as_gguf("llama", model, other)
    written.tensors["token_embd.weight"] = others.tensors["token_embd.weight"]
    name = "model.embed_tokens.weight"
    written.meant[name] = others.meant[name]
    loaded = _loaded(written, tmp_path)
    np.testing.assert_allclose(_logits(loaded), _meaning(model, written), atol=1e-4, rtol=1e-4)


def test_what_mlx_cannot_pack_is_unpacked_and_says_so(tmp_path: Path) -> None:
    prepared = prepare(as_gguf("qwen3", random_model("qwen3"), "Q4_K").write(tmp_path / "t.gguf"))
    fates = {found.kind: (found.stored, found.reason) for found in prepared.outcomes}
    assert fates["Q4_K"] == ("float16", "dequantized: MLX has no such grid")
    assert "quantization" not in json.loads(prepared.files["config.json"])


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_requantized_on_request(dtype: str | None, tmp_path: Path) -> None:
    model = random_model("llama")
    written = as_gguf("llama", model, "Q5_K")
    loaded = _loaded(written, tmp_path, Wishes(requantize=8, dtype=dtype))
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["quantization"] == {"group_size": 64, "bits": 8}
    values = written.meant["model.layers.0.mlp.up_proj.weight"]
    mlx_type = mx.bfloat16 if dtype else mx.float16
    packed = mx.quantize(mx.array(values).astype(mlx_type), group_size=64, bits=8)
    layer = loaded.model.layers[0].mlp.up_proj
    assert mx.array_equal(layer.weight, packed[0])
    assert mx.array_equal(layer.scales, packed[1].astype(mx.float32))
    near = _meaning(model, written)
    assert np.abs(_logits(loaded) - near).max() < 0.05 * np.abs(near).max()


def test_dequantized_on_request(tmp_path: Path) -> None:
    written = as_gguf("llama", random_model("llama"), "Q4_0")
    prepared = prepare(written.write(tmp_path / "t.gguf"), Wishes(dequantize=True))
    fates = {found.kind: (found.stored, found.reason) for found in prepared.outcomes}
    assert fates["Q4_0"] == ("float16", "dequantized: as asked")


def test_bfloat16_does_not_mix_with_scales_of_float16(tmp_path: Path) -> None:
    written = as_gguf("llama", random_model("llama"), "Q8_0")
    prepared = prepare(written.write(tmp_path / "t.gguf"), Wishes(dtype="bfloat16"))
    fates = {found.kind: (found.stored, found.reason) for found in prepared.outcomes}
    assert fates["Q8_0"] == ("bfloat16", "dequantized: its scales are float16")
    assert fates["F32"] == ("bfloat16", "rounded: as asked")
    folder = tmp_path / "model"
    folder.mkdir()
    write(prepared, folder)
    name = "model.layers.1.self_attn.v_proj.weight"
    weights: Any = mx.load(str(folder / "model.safetensors"))
    assert weights[name].dtype == mx.bfloat16
    assert mx.array_equal(weights[name], mx.array(written.meant[name]).astype(mx.bfloat16))


def test_a_bfloat16_file_stays_one(tmp_path: Path) -> None:
    written = as_gguf("qwen2", random_model("qwen2"), "BF16")
    prepared = prepare(written.write(tmp_path / "t.gguf"))
    fates = {(found.kind, found.stored) for found in prepared.outcomes}
    assert fates == {("BF16", "bfloat16"), ("F32", "float32")}
    assert "--dtype bfloat16" in prepared.notes[0]


def test_gemma_in_float16_comes_with_a_warning(tmp_path: Path) -> None:
    written = as_gguf("gemma2", random_model("gemma2"), "Q8_0")
    prepared = prepare(written.write(tmp_path / "t.gguf"))
    assert "float16's range" in prepared.notes[-1]
    without = prepare(tmp_path / "t.gguf", Wishes(dequantize=True))
    assert json.loads(without.files["config.json"])["torch_dtype"] == "bfloat16"
    assert not any("float16's range" in note for note in without.notes)


def test_values_beyond_float16_are_refused_with_a_way_out(tmp_path: Path) -> None:
    written = as_gguf("llama", random_model("llama"), "Q6_K")
    kind, data = written.tensors["blk.0.ffn_up.weight"]
    large = data.reshape(-1, 210).copy()
    large[:, 208:210] = np.full((len(large), 1), 60000, "<f2").view(np.uint8)
    written.tensors["blk.0.ffn_up.weight"] = (kind, large.reshape(data.shape))
    with pytest.raises(BadModelFiles, match="beyond float16") as caught:
        import_gguf(written.write(tmp_path / "t.gguf"), tmp_path)
    assert "--dtype bfloat16" in str(caught.value.hint)


def test_a_tied_output_needs_no_tensor(tmp_path: Path) -> None:
    model = random_model("qwen3", tie_word_embeddings=True)
    loaded = _loaded(as_gguf("qwen3", model), tmp_path)
    np.testing.assert_allclose(_logits(loaded), _logits(model), atol=1e-5, rtol=1e-5)


def test_a_split_model_is_read_from_any_of_its_files(tmp_path: Path) -> None:
    model = random_model("llama")
    first = as_gguf("llama", model).write(tmp_path / "tiny.gguf", tensors_per_file=8)
    parts = sorted(tmp_path.glob("tiny-*.gguf"))
    assert len(parts) == 3
    assert parts[0] == first
    for part in parts:
        prepared = prepare(part)
        assert prepared.gguf.path == first
    import_gguf(parts[1], tmp_path)
    found = _unpacked(tmp_path)
    for name, value in tree_flatten(model.parameters()):
        assert np.array_equal(found[name], np.array(value)), name
    parts[2].unlink()
    with pytest.raises(BadModelFiles, match=r"tiny-00003-of-00003\.gguf is missing"):
        prepare(first)


def test_a_file_of_a_split_model_that_was_renamed_says_so(tmp_path: Path) -> None:
    first = as_gguf("llama", random_model("llama")).write(
        tmp_path / "tiny.gguf", tensors_per_file=8
    )
    with pytest.raises(BadModelFiles, match="one of 3 files"):
        prepare(first.rename(tmp_path / "renamed.gguf"))


def _rope(arch: str, scaling: dict[str, Any], metadata: dict[str, Any], **more: Any) -> Any:
    """Return a model with rotary scaling, and the file that tells of it."""
    model = random_model(arch, rope_scaling=scaling, **more)
    keys = {f"{arch}.rope.scaling.{key}": value for key, value in metadata.items()}
    return model, as_gguf(arch, model, **keys)


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3", "gemma3"])
def test_linear_scaling(arch: str, tmp_path: Path) -> None:
    model, written = _rope(
        arch, {"type": "linear", "factor": 4.0}, {"type": "linear", "factor": 4.0}
    )
    np.testing.assert_allclose(_logits(_loaded(written, tmp_path)), _logits(model), atol=1e-5)


def test_yarn_scaling(tmp_path: Path) -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    told = {"type": "yarn", "factor": 4.0, "original_context_length": 32}
    model, written = _rope("qwen2", scaling, told)
    np.testing.assert_allclose(_logits(_loaded(written, tmp_path)), _logits(model), atol=1e-5)


def test_rotary_factors_of_phi3(tmp_path: Path) -> None:
    half = HEAD * 3 // 4 // 2
    scaling = {
        "type": "longrope",
        "long_factor": np.linspace(1, 9, half).astype(np.float32).tolist(),
        "short_factor": np.linspace(1, 2, half).astype(np.float32).tolist(),
    }
    attention = float(np.sqrt(1 + np.log(CONTEXT / 32) / np.log(32)))
    model, written = _rope(
        "phi3",
        scaling,
        {"original_context_length": 32, "attn_factor": attention},
        original_max_position_embeddings=32,
        partial_rotary_factor=0.75,
    )
    written.metadata["phi3.rope.dimension_count"] = HEAD * 3 // 4
    for length in ("long", "short"):
        factors = np.array(scaling[f"{length}_factor"], np.float32)
        written.tensors[f"rope_factors_{length}.weight"] = ("F32", factors)
    np.testing.assert_allclose(_logits(_loaded(written, tmp_path)), _logits(model), atol=1e-5)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["rope_scaling"] == scaling
    assert "long contexts" in prepare(tmp_path / "tiny.gguf").notes[-1]


@pytest.mark.parametrize(
    ("arch", "metadata", "named"),
    [
        ("gemma2", {"gemma2.rope.scaling.type": "linear"}, "linear"),
        ("gemma3", {"gemma3.final_logit_softcapping": 30.0}, "final_logit_softcapping"),
        ("qwen2", {"qwen2.attention.key_length": 32}, "derives their width"),
        ("qwen3", {"qwen3.rope.dimension_count": 32}, "part of each head"),
        ("llama", {"llama.attention.scale": 0.5}, "attention.scale"),
        ("qwen2", {"qwen2.rope.scaling.type": "yarn"}, "rope.scaling.factor"),
        ("phi3", {"phi3.rope.scaling.type": "longrope"}, "original_context_length"),
        ("gemma3", {"gemma3.attention.sliding_window_pattern": [True, True]}, "does not repeat"),
    ],
)
def test_what_mlx_lm_does_not_compute_is_refused(
    arch: str, metadata: dict[str, Any], named: str, tmp_path: Path
) -> None:
    written = as_gguf(arch, random_model(arch), **metadata)
    with pytest.raises(BadModelFiles) as caught:
        prepare(written.write(tmp_path / "t.gguf"))
    assert named in caught.value.message


def test_the_pattern_of_windows_may_be_a_list(tmp_path: Path) -> None:
    written = as_gguf("gemma3", random_model("gemma3"))
    written.metadata["gemma3.attention.sliding_window_pattern"] = [True, False]
    prepared = prepare(written.write(tmp_path / "t.gguf"))
    assert json.loads(prepared.files["config.json"])["sliding_window_pattern"] == 2


@pytest.mark.parametrize(("layers", "scalar"), [(2, 128), (46, 64)])
def test_the_largest_gemma_scales_its_queries_differently(
    layers: int, scalar: int, tmp_path: Path
) -> None:
    written = as_gguf("gemma2", random_model("gemma2"))
    written.metadata["gemma2.block_count"] = layers
    block = {name: one for name, one in written.tensors.items() if name.startswith("blk.0.")}
    for layer in range(2, layers):
        written.tensors |= {
            name.replace("blk.0.", f"blk.{layer}."): one for name, one in block.items()
        }
    config = json.loads(prepare(written.write(tmp_path / "t.gguf")).files["config.json"])
    assert config["query_pre_attn_scalar"] == scalar
