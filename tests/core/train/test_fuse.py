"""Fusing: the same answers, and nothing else touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm import load

from core.errors import BadModelFiles, UsageProblem
from core.paths import Paths
from core.registry.weights import read_header
from core.train.fuse import fuse
from core.train.shelf import find_card, list_adapters
from tests.core.train.runs import config_of, run, sums, write_rows
from tests.tiny import llama_config, make_model


def trained(folder: Path, bits: int | None, **fields: Any) -> Path:
    make_model(folder / "model", bits=bits)
    write_rows(folder / "data", sums(6))
    run(config_of(folder, iters=4, **fields), folder / "home")
    return folder


def logits(folder: Path, adapter: Path | None = None) -> Any:
    model, _ = load(str(folder), adapter_path=str(adapter) if adapter else None)
    return model(mx.arange(12)[None])


def raw(file: Path) -> dict[str, bytes]:
    data = file.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    spans = {name: tensor["data_offsets"] for name, tensor in read_header(file).items()}
    return {name: data[begin + a : begin + b] for name, (a, b) in spans.items()}


def adapter(place: Path) -> dict[str, Any]:
    arrays: Any = mx.load(str(place / "out" / "adapters.safetensors"))
    return {name: np.array(array) for name, array in arrays.items()}


def dequantized(folder: Path, path: str, bits: int) -> tuple[Any, Any]:
    """Return a layer's weights, and the steps of its groups."""
    arrays: Any = mx.load(str(folder / "model.safetensors"))
    weight, scales, biases = (arrays[f"{path}.{name}"] for name in ("weight", "scales", "biases"))
    plain = mx.dequantize(weight, scales, biases, group_size=32, bits=bits)
    return np.array(plain), np.array(scales)


def test_a_plain_model_answers_as_with_the_adapter(tmp_path: Path) -> None:
    place = trained(tmp_path, None)
    done = fuse(place / "model", place / "out", place / "fused")
    wanted = logits(place / "model", place / "out")
    assert float(mx.abs(logits(place / "fused") - wanted).max()) < 1e-3
    assert (done.layers, done.tensors_kept) == (14, 6)


@pytest.mark.parametrize("bits", [4, 8])
def test_a_quantized_model_keeps_its_layout(tmp_path: Path, bits: int) -> None:
    place = trained(tmp_path, bits, target_modules=["q_proj", "down_proj"])
    fuse(place / "model", place / "out", place / "fused")
    before, after = (raw(place / name / "model.safetensors") for name in ("model", "fused"))
    headers = [read_header(place / n / "model.safetensors") for n in ("model", "fused")]
    assert headers[0] == headers[1]
    changed = {name for name in before if before[name] != after[name]}
    assert {name.rsplit(".", 1)[0].rsplit(".", 1)[1] for name in changed} == {"q_proj", "down_proj"}
    for path in sorted({name.rsplit(".", 1)[0] for name in changed}):
        base, fused = (dequantized(place / name, path, bits) for name in ("model", "fused"))
        step = np.repeat(np.abs(fused[1]), 32, axis=1)
        update = 4.0 * (adapter(place)[f"{path}.lora_a"] @ adapter(place)[f"{path}.lora_b"]).T
        # As near as the bits allow: half a step of the group, and what its ends were moved by.
        assert (np.abs(fused[0] - (base[0] + update)) <= 1.01 * step + 1e-6).all()
    assert (place / "fused" / "config.json").read_bytes() == (
        place / "model" / "config.json"
    ).read_bytes()


def test_a_layer_may_lie_in_two_files(tmp_path: Path) -> None:
    place = trained(tmp_path, 8)
    fuse(place / "model", place / "out", place / "whole")
    weights: Any = mx.load(str(place / "model" / "model.safetensors"))
    mx.eval(weights)
    (place / "model" / "model.safetensors").unlink()
    for number, is_mine in ((1, True), (2, False)):
        part = {n: array for n, array in weights.items() if n.endswith(".weight") == is_mine}
        file = place / "model" / f"model-0000{number}-of-00002.safetensors"
        mx.save_safetensors(str(file), part, metadata={"format": "mlx"})
    done = fuse(place / "model", place / "out", place / "fused")
    assert not done.anew
    wanted = raw(place / "whole" / "model.safetensors")
    found = [raw(file) for file in sorted((place / "fused").glob("*.safetensors"))]
    assert len(found) == 2
    assert found[0] | found[1] == wanted


def test_half_precision_stays_half_precision(tmp_path: Path) -> None:
    place = trained(tmp_path, None)
    file = place / "model" / "model.safetensors"
    weights: Any = mx.load(str(file))
    half = {name: array.astype(mx.bfloat16) for name, array in weights.items()}
    mx.save_safetensors(str(file), half, metadata={"format": "mlx"})
    fuse(place / "model", place / "out", place / "fused")
    fused: Any = mx.load(str(place / "fused" / "model.safetensors"))
    assert {array.dtype for array in fused.values()} == {mx.bfloat16}
    name = "model.layers.0.self_attn.q_proj.weight"
    arrays: Any = mx.load(str(place / "out" / "adapters.safetensors"))
    a, b = (arrays[name.replace("weight", part)] for part in ("lora_a", "lora_b"))
    wanted = half[name].astype(mx.float32) + 4.0 * (a @ b).T
    found = np.array(fused[name].astype(mx.float32))
    assert np.abs(found - np.array(wanted)).max() < 0.01


def test_what_does_not_fit_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    place = trained(tmp_path, None)
    with pytest.raises(UsageProblem, match="exists already"):
        fuse(place / "model", place / "out", place / "data")
    wide = llama_config(hidden_size=96)
    make_model(place / "wide", config=wide)
    with pytest.raises(BadModelFiles, match="has the shape"):
        fuse(place / "wide", place / "out", place / "fused")
    make_model(place / "flat", config=llama_config(num_hidden_layers=1))
    with pytest.raises(BadModelFiles, match=r"has no linear layer model.layers.1"):
        fuse(place / "flat", place / "out", place / "fused")
    assert not [path for path in place.iterdir() if "fus" in path.name]


def test_the_shelf(tmp_path: Path) -> None:
    paths = Paths.from_environ({"HOME": str(tmp_path / "home")})
    assert list_adapters(paths) == []
    place = trained(tmp_path, None, adapter_path=str(paths.cache / "adapters" / "one"))
    (paths.cache / "adapters" / "broken").mkdir()
    (card,) = list_adapters(paths)
    assert (card.name, card.base, card.method, card.rank) == ("one", "model", "sft", 4)
    assert card.layers == 14
    assert card.loss is not None
    assert card.base_loss is not None
    assert card.loss < card.base_loss
    assert find_card("one", paths) == card
    assert str(place) not in (card.folder / "adapter_config.json").read_text()


def test_a_pipe_in_the_model_is_refused_at_once(tmp_path: Path) -> None:
    base = make_model(tmp_path / "model")
    os.mkfifo(base / "generation_config.json")
    with pytest.raises(BadModelFiles, match=r"generation_config\.json is not a regular file"):
        fuse(base, tmp_path / "out", tmp_path / "fused")
    assert not (tmp_path / "fused").exists()
