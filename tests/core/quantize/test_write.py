"""What is written is what mlx-lm itself makes of the same layers, and loads there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.utils import compute_bits_per_weight, load_model, quantize_model

from core.errors import BadModelFiles, DoesNotFit, UsageProblem
from core.provenance import read_provenance
from core.registry.weights import read_header
from tests.core.fit.tiny_families import build, safe_families, tiny_config
from tests.core.quantize.box import Box, config_of, contents
from tests.tiny import llama_config, make_model, write_tokenizer

_TOKENS = [[3, 1, 4, 1, 5, 9, 2, 6]]


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path / "box")


def _logits(folder: Path) -> mx.array:
    logits: mx.array = load_model(folder)[0](mx.array(_TOKENS))
    return logits


def test_it_is_what_mlx_lm_writes(box: Box) -> None:
    folder = box.model()
    result = box.quantize(folder)
    model, config = load_model(folder)
    model, config = quantize_model(model, config, 32, 4)
    assert mx.array_equal(_logits(result.folder), model(mx.array(_TOKENS)))
    assert result.bits_per_weight == compute_bits_per_weight(model)
    assert config_of(result.folder)["quantization"] == config["quantization"]
    theirs = dict(tree_flatten(model.parameters()))
    ours = dict(tree_flatten(load_model(result.folder)[0].parameters()))
    assert ours.keys() == theirs.keys()
    assert all(mx.array_equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(
    ("mode", "suffix"), [("mxfp4", "mxfp4"), ("nvfp4", "nvfp4"), ("mxfp8", "mxfp8")]
)
def test_block_modes(mode: str, suffix: str, box: Box) -> None:
    folder = box.model()
    result = box.quantize(folder, mode=mode, bits=None, group_size=None)
    assert result.repo_id == f"local/model-OptiQ-{suffix}"
    model, config = load_model(folder)
    model, _ = quantize_model(model, config, None, None, mode=mode)
    assert mx.array_equal(_logits(result.folder), model(mx.array(_TOKENS)))
    assert result.bits_per_weight == compute_bits_per_weight(model)


def test_it_loads_by_repo_id_without_a_network(box: Box) -> None:
    result = box.quantize(box.model())
    code = (
        "import sys; from mlx_lm import load; import mlx.core as mx;"
        "model, tokenizer = load(sys.argv[1]);"
        f"print(float(model(mx.array({_TOKENS})).sum()), tokenizer.decode([104, 105]))"
    )
    environ = {**os.environ, **box.environ, "HF_HUB_OFFLINE": "1"}
    assert result.repo_id is not None
    told = subprocess.check_output(
        [sys.executable, "-c", code, result.repo_id], env=environ, text=True
    )
    assert float(told.split()[0]) == pytest.approx(float(_logits(result.folder).sum()))


def test_every_other_file_is_copied_byte_for_byte(box: Box) -> None:
    folder = box.model()
    kept = {
        "LICENSE": b"free\r\n",
        "chat_template.jinja": b"{{ x }}",
        "preprocessor_config.json": b'{"a":1}',
        "generation_config.json": b'{"eos_token_id": 256}',
        "templates/other.jinja": b"{{ y }}",
        "README.md": b"# A model",
    }
    gone = (
        *("kv_config.json", "mlxbun.json", "quantize_config.json", "optiq_metadata.json"),
        *("pytorch_model.bin", ".gitattributes", "original/consolidated.00.pth"),
    )
    for name, content in {**kept, **dict.fromkeys(gone, b"{}")}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "mlxbun.json").write_text('{"schema": 1, "base_model": {"id": "org/base"}}')
    found = contents(box.quantize(folder).folder)
    assert {name: found[name] for name in kept} == kept
    assert found["tokenizer.json"] == (folder / "tokenizer.json").read_bytes()
    assert not set(gone) - {"mlxbun.json"} & found.keys()


def test_it_tells_where_it_comes_from(box: Box) -> None:
    folder = box.model()
    (folder / "mlxbun.json").write_text('{"schema": 1, "base_model": {"id": "org/base"}}')
    found = read_provenance(box.quantize(folder, override="*.q_proj=8").folder)
    assert found is not None
    assert found.relation == "quantized"
    assert found.base is not None
    assert found.base.repo_id == "org/base"
    assert found.recipe["bits"] == 4
    assert found.recipe["override"] == ("*.q_proj=8",)
    assert "mlx-lm" in found.versions
    assert str(box.root) not in json.dumps(dict(found.recipe))


def test_overrides_and_embeddings(box: Box) -> None:
    folder = box.model()
    result = box.quantize(
        folder, override=["*.q_proj=8", "*.layers.1.*.q_proj=keep"], embedding_bits=6
    )
    quantization = config_of(result.folder)["quantization"]
    assert quantization["model.layers.0.self_attn.q_proj"]["bits"] == 8
    assert quantization["model.embed_tokens"]["bits"] == 6
    assert dict(result.kept) == {"model.layers.1.self_attn.q_proj": "an override keeps them"}
    header = read_header(result.folder / "model.safetensors")
    assert "model.layers.1.self_attn.q_proj.scales" not in header
    assert header["model.layers.1.self_attn.q_proj.weight"]["dtype"] == "F32"
    without = box.quantize(folder, quantize_embeddings=False)
    assert dict(without.kept) == {"model.embed_tokens": "quantize_embeddings is off"}


def test_what_does_not_fit_the_group_is_named_before_any_work(box: Box) -> None:
    folder = box.model(hidden_size=96, num_attention_heads=3, num_key_value_heads=3)
    result = box.quantize(folder, group_size=64)
    told = next(note for note in box.notes if "stay unquantized" in note)
    assert "model.embed_tokens, model.layers.*.self_attn.q_proj (2)" in told
    assert "their last dimension, 96, is not a multiple of 64" in told
    assert ("model.embed_tokens" in dict(result.kept)) is True
    assert mx.isfinite(_logits(result.folder)).all()
    with pytest.raises(UsageProblem, match="does not divide") as caught:
        box.quantize(folder, group_size=64, strict=True)
    assert caught.value.hint == "--group-size 32 fits them all."
    with pytest.raises(UsageProblem, match="128 divides no layer"):
        box.quantize(box.model("odd", hidden_size=96, intermediate_size=96), group_size=128)


def test_a_source_that_is_quantized_already(box: Box) -> None:
    folder = make_model(box.root / "packed", bits=8)
    with pytest.raises(UsageProblem, match="quantized already \\(8-bit g32\\)"):
        box.quantize(folder)
    result = box.quantize(folder, allow_requantize=True)
    assert result.requantized == "8-bit g32"
    assert any("its loss is in the result" in note for note in box.notes)
    assert config_of(result.folder)["quantization"]["bits"] == 4
    apart = mx.abs(_logits(result.folder) - _logits(folder)).max()
    assert 0 < float(apart) < 20


def test_dequantize(box: Box) -> None:
    folder = make_model(box.root / "packed", bits=8)
    result = box.quantize(folder, dequantize=True, bits=None, group_size=None)
    assert result.repo_id == "local/packed-OptiQ-dequantized"
    assert "quantization" not in config_of(result.folder)
    assert mx.allclose(_logits(result.folder), _logits(folder), atol=1e-3)
    with pytest.raises(UsageProblem, match="is not quantized"):
        box.quantize(box.model(), dequantize=True, bits=None, group_size=None)


def test_a_plain_folder_appears_as_a_whole(box: Box) -> None:
    folder, output = box.model(), box.root / "out"
    result = box.quantize(folder, output=str(output))
    assert (result.folder, result.repo_id) == (output, None)
    assert _logits(output).shape == (1, 8, 259)
    assert not [path for path in box.root.iterdir() if "mlxbun-quantize" in path.name]
    for taken in (output, folder / "inside", folder.parent):
        with pytest.raises(UsageProblem):
            box.quantize(folder, output=str(taken), override="*.q_proj=8")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_weights_that_are_no_numbers_end_the_run(
    value: float, name: str, dtype: str, box: Box
) -> None:
    folder = box.model()
    weights: Any = mx.load(str(folder / "model.safetensors"))
    weights = {key: array.astype(getattr(mx, dtype)) for key, array in weights.items()}
    flat = weights[name].reshape(-1)
    flat[-1] = value
    weights[name] = flat.reshape(weights[name].shape)
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    with pytest.raises(BadModelFiles, match=name):
        box.quantize(folder)
    assert box.listed() == []
    assert not list((box.paths.hub_cache / ".locks").iterdir())


def test_too_little_disk_or_memory_is_said_before_any_work(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = box.model()
    with monkeypatch.context() as patch:
        patch.setattr("core.quantize.open.working_bytes", lambda _plan: 10**15)
        with pytest.raises(DoesNotFit, match="of memory"):
            box.quantize(folder)
    monkeypatch.setattr("core.quantize.open._BESIDE", 10**18)
    with pytest.raises(DoesNotFit, match="of disk"):
        box.quantize(folder)


def _add_tensors(folder: Path, extra: dict[str, mx.array]) -> None:
    weights: Any = mx.load(str(folder / "model.safetensors"))
    mx.save_safetensors(str(folder / "model.safetensors"), {**weights, **extra})


def _as_on_the_hub(folder: Path) -> None:
    """Take the experts of qwen3_next apart, and turn its convolutions."""
    weights: Any = mx.load(str(folder / "model.safetensors"))
    made: dict[str, mx.array] = {}
    for name, array in weights.items():
        if ".switch_mlp." in name:
            for index, part in enumerate(array):
                made[name.replace("switch_mlp", f"experts.{index}")] = part
        else:
            made[name] = mx.moveaxis(array, 1, 2) if "conv1d.weight" in name else array
    mx.save_safetensors(str(folder / "model.safetensors"), made)


def _family(box: Box, family: str) -> Path:
    mx.random.seed(0)
    folder = box.root / family
    folder.mkdir(parents=True)
    weights = dict(tree_flatten(build(family).parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(tiny_config(family)))
    write_tokenizer(folder, chat_template=None)
    return folder


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("qwen3_next", ("mtp.fc.weight", "mtp.layers.0.mlp.gate.weight")),
        ("qwen3_5", ("language_model.mtp.fc.weight", "vision_tower.blocks.0.weight")),
        ("gemma3", ("vision_tower.encoder.weight", "multi_modal_projector.weight")),
        ("glm4_moe", ("model.layers.99.eh_proj.weight",)),
        ("mistral3", ("vision_tower.patch.weight",)),
    ],
)
def test_what_mlx_lm_leaves_out_is_kept(family: str, names: tuple[str, ...], box: Box) -> None:
    folder = _family(box, family)
    plain = box.quantize(folder)
    layers = load_model(folder, lazy=True)[0].layers
    names = tuple(name.replace("99", str(len(layers))) for name in names)
    extra = {name: mx.random.normal((3, 8)).astype(mx.bfloat16) for name in names}
    with_extras = Box(box.root / "second")
    folder = _family(with_extras, family)
    if family == "qwen3_next":
        _as_on_the_hub(folder)
    _add_tensors(folder, extra)
    # Files as the Hub has them are read differently from ours: norms get 1 more in qwen3_next.
    expected = load_model(folder, lazy=True)[0]
    result = with_extras.quantize(folder)
    found: Any = mx.load(str(result.folder / "extras.safetensors"))
    assert found.keys() == extra.keys()
    assert all(mx.array_equal(found[name], extra[name]) for name in extra)
    kept = dict(tree_flatten(load_model(result.folder, lazy=True)[0].parameters()))
    for name, array in tree_flatten(expected.parameters()):
        if name in kept and kept[name].dtype == array.dtype:
            assert mx.array_equal(kept[name], array), name
    text_only = with_extras.quantize(folder, text_only=True)
    assert not (text_only.folder / "extras.safetensors").exists()
    assert plain.bits_per_weight == text_only.bits_per_weight
    assert any(f"{len(extra)} tensors" in note and "left out" in note for note in text_only.notes)


def test_extras_stay_when_a_result_is_quantized_again(box: Box) -> None:
    folder = _family(box, "mistral3")
    extra = {"vision_tower.patch.weight": mx.random.normal((3, 8)).astype(mx.bfloat16)}
    _add_tensors(folder, extra)
    first = box.quantize(folder).folder
    for fields in ({"allow_requantize": True, "bits": 8}, {"dequantize": True}):
        again = box.quantize(first, **_plain(fields))
        found: Any = mx.load(str(again.folder / "extras.safetensors"))
        assert found.keys() == extra.keys()
        assert all(mx.array_equal(found[name], extra[name]) for name in extra)


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a run, without a form where the result has none."""
    return fields | ({"bits": None, "group_size": None} if "dequantize" in fields else {})


def test_text_only_drops_the_keys_of_towers(box: Box) -> None:
    folder = box.model(
        vision_config={"a": 1}, image_token_id=7, mtp_num_layers=1, hidden_act="silu"
    )
    assert "vision_config" in config_of(box.quantize(folder).folder)
    config = config_of(box.quantize(folder, text_only=True).folder)
    assert not {"vision_config", "image_token_id", "mtp_num_layers"} & config.keys()
    assert config["hidden_act"] == "silu"


def test_text_only_without_effect_is_stated(box: Box) -> None:
    notes = box.quantize(box.model(), text_only=True).notes
    assert any("nothing to leave out" in note for note in notes)


def test_fp8_sources_are_unpacked_first(box: Box) -> None:
    folder = _family(box, "deepseek_v3")
    weights: Any = mx.load(str(folder / "model.safetensors"))
    name = "model.layers.0.self_attn.o_proj.weight"
    rows, columns = weights[name].shape
    weights[name] = mx.to_fp8(weights[name])
    scales = (-(-rows // 128), -(-columns // 128))
    weights[f"{name}_scale_inv"] = mx.full(scales, 0.5)
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    config = config_of(folder) | {"quantization_config": {"quant_method": "fp8"}}
    (folder / "config.json").write_text(json.dumps(config))
    result = box.quantize(folder)
    quantization = config_of(result.folder)["quantization_config"]
    assert "quant_method" not in quantization
    model, _ = load_model(folder)
    layer = dict(model.named_modules())[name.removesuffix(".weight")]
    found = dict(load_model(result.folder)[0].named_modules())[name.removesuffix(".weight")]
    assert mx.array_equal(found.weight, layer.to_quantized(group_size=32, bits=4).weight)


def test_several_files_and_their_index(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = box.model()
    expected = _logits(box.quantize(folder, override="*.q_proj=8").folder)
    monkeypatch.setattr("core.registry.tensorfile.SHARD_BYTES", 20_000)
    result = Box(box.root / "other").quantize(folder, override="*.q_proj=8")
    names = sorted(path.name for path in result.folder.glob("*.safetensors"))
    assert names[0] == f"model-00001-of-{len(names):05}.safetensors"
    assert len(names) > 2
    index = json.loads((result.folder / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == set(names)
    assert index["metadata"]["total_size"] == result.weights_bytes
    assert mx.array_equal(_logits(result.folder), expected)


def _check_family(family: str, box: Box) -> None:
    """Compare the result with mlx-lm's module, its layers packed by their own methods."""
    folder = _family(box, family)
    result = box.quantize(folder)
    told = config_of(result.folder)["quantization"]
    headers = read_header(result.folder / "model.safetensors")
    model, _ = load_model(folder, lazy=True)
    default = {name: told[name] for name in ("bits", "group_size", "mode")}
    nn.quantize(
        model,
        class_predicate=lambda path, _: (
            told.get(path, default) if f"{path}.scales" in headers else False
        ),
    )
    assert mx.array_equal(model(mx.array(_TOKENS)), _logits(result.folder))


@pytest.mark.parametrize(
    "family", ["gemma3", "gpt_oss", "kimi_linear", "mixtral", "qwen3_next", "seed_oss"]
)
def test_some_architectures(family: str, box: Box) -> None:
    _check_family(family, box)


@pytest.mark.slow
@pytest.mark.parametrize("family", safe_families())
def test_all_architectures(family: str, box: Box) -> None:
    _check_family(family, box)


def test_routers_keep_eight_bits(box: Box) -> None:
    folder = _family(box, "qwen2_moe")
    told = config_of(box.quantize(folder).folder)["quantization"]
    gates = {path: each for path, each in told.items() if path.endswith("gate")}
    assert {path.rpartition(".")[2] for path in gates} == {"gate", "shared_expert_gate"}
    assert all(each["bits"] == 8 for each in gates.values())
    asked = config_of(box.quantize(folder, override="*.mlp.gate=3").folder)["quantization"]
    assert asked["model.layers.0.mlp.gate"]["bits"] == 3


def test_llama_config_is_left_alone(box: Box) -> None:
    changes: dict[str, Any] = {"my_own": {"x": [1, 2.5]}, "rope_scaling": None}
    folder = box.model(**changes)
    config = config_of(box.quantize(folder).folder)
    del config["quantization"], config["quantization_config"]
    assert config == json.loads(json.dumps(llama_config(**changes)))
