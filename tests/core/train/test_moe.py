"""Mixtures of experts: every expert learns, and others read, serve and fuse what it learned."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm import load as load_with_mlx_lm
from mlx_lm.models.switch_layers import SwitchGLU

from core.engine.loader import load
from core.engine.request import SamplingParams
from core.registry.weights import read_header
from core.train.arrays import number
from core.train.config import TrainConfig
from core.train.estimate import _idle
from core.train.events import Note, TrainEvent
from core.train.fuse import fuse
from core.train.lora import LoRASwitchLinear, find_targets
from core.train.model import TrainModel
from core.train.ranks import KL_FILE
from core.train.shelf import read_card
from tests.core.engine.conftest import PLAN
from tests.core.fit.tiny_families import build, tiny_config
from tests.core.train.runs import config_of, run, sums, write_rows
from tests.tiny import make_model

_FAMILIES = ["mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "gpt_oss", "deepseek_v3"]
_NAMES = ("gate_proj", "up_proj", "down_proj")
_NEAR = 1e-4


def trained(folder: Path, family: str, bits: int | None = None, **fields: Any) -> list[str]:
    """Train, and return the notes."""
    make_model(folder / "model", config=tiny_config(family) | {"eos_token_id": 256}, bits=bits)
    write_rows(folder / "data", sums(6))
    return train(config_of(folder, iters=3, **fields), folder)


def train(config: TrainConfig, folder: Path) -> list[str]:
    events: list[TrainEvent] = []
    result = run(config, folder / "home", events=events)
    assert result.after.loss < result.before.loss
    return [event.line for event in events if isinstance(event, Note)]


def logits(folder: Path, adapter: Path | None = None) -> Any:
    model, *_ = load_with_mlx_lm(str(folder), adapter_path=str(adapter) if adapter else None)
    return model(mx.arange(12)[None])


def difference(left: Any, right: Any) -> float:
    return number(mx.abs(left - right).max())


def tensors(folder: Path, name: str) -> dict[str, Any]:
    arrays: Any = mx.load(str(folder / name))
    return {path: np.array(array.astype(mx.float32)) for path, array in arrays.items()}


@pytest.mark.parametrize("count", [5, 40], ids=["in order", "sorted by experts"])
def test_gradients_are_those_of_experts_computed_densely(count: int) -> None:
    mx.random.seed(0)
    experts, width, inner, chosen = 4, 8, 6, 2
    glu = SwitchGLU(width, inner, experts)
    glu.freeze()
    for index, name in enumerate(_NAMES):
        key = mx.random.key(index)
        layer = LoRASwitchLinear(getattr(glu, name), rank=3, scale=2.0, dropout=0.0, key=key)
        layer.lora_b = 0.1 * mx.random.normal(layer.lora_b.shape)
        setattr(glu, name, layer)
    x = mx.random.normal((count, width))
    indices = mx.random.randint(0, experts, (count, chosen))
    picked = mx.eye(experts)[indices]  # [N, K, E]

    def sparse(values: Any) -> Any:
        glu.update(tree_unflatten(list(values.items())))
        return mx.square(glu(x[None], indices[None])).sum()

    def project(values: Any, name: str, z: Any) -> Any:
        added = 2.0 * values[f"{name}.lora_b"] @ values[f"{name}.lora_a"]
        weight = getattr(glu, name).linear.weight + added
        return mx.einsum("nki,eoi,nke->nko", z, weight, picked)

    def dense(values: Any) -> Any:
        z = mx.repeat(x[:, None], chosen, axis=1)
        z = nn.silu(project(values, "gate_proj", z)) * project(values, "up_proj", z)
        return mx.square(project(values, "down_proj", z)).sum()

    values = dict(tree_flatten(glu.trainable_parameters()))
    assert len(values) == 6
    loss, grads = mx.value_and_grad(sparse)(values)
    wanted_loss, wanted = mx.value_and_grad(dense)(values)
    assert number(loss) == pytest.approx(number(wanted_loss), rel=1e-5)
    for name in values:
        assert difference(grads[name], wanted[name]) < 1e-5 * number(mx.abs(wanted[name]).max())


@pytest.mark.parametrize("family", _FAMILIES)
def test_experts_are_trained_read_by_mlx_lm_and_fused(tmp_path: Path, family: str) -> None:
    notes = trained(tmp_path, family)
    told = [note for note in notes if "mixtures of experts (4 each)" in note]
    assert len(told) == 1
    adapter = tensors(tmp_path / "out", "adapters.safetensors")
    assert all(np.abs(array).max() > 0 for array in adapter.values())
    experts = {name: array.shape for name, array in adapter.items() if array.ndim == 3}
    assert {shape[0] for shape in experts.values()} == {4}
    assert {name.rsplit(".", 2)[-2] for name in experts} == set(_NAMES)
    with_adapter = logits(tmp_path / "model", tmp_path / "out")
    assert difference(with_adapter, logits(tmp_path / "model")) > 0.01
    done = fuse(tmp_path / "model", tmp_path / "out", tmp_path / "fused")
    assert not done.anew
    assert difference(logits(tmp_path / "fused"), with_adapter) < _NEAR


@pytest.mark.parametrize("family", ["qwen2_moe", "gpt_oss"])
def test_a_quantized_mixture_keeps_its_layout(tmp_path: Path, family: str) -> None:
    trained(tmp_path, family, bits=8)
    fuse(tmp_path / "model", tmp_path / "out", tmp_path / "fused")
    headers = [read_header(tmp_path / n / "model.safetensors") for n in ("model", "fused")]
    assert headers[0] == headers[1]
    adapter = tensors(tmp_path / "out", "adapters.safetensors")
    paths = {name.rsplit(".", 1)[0] for name, array in adapter.items() if array.ndim == 3}
    assert len(paths) == 12
    for path in paths:
        base, fused = (unpacked(tmp_path / name, path) for name in ("model", "fused"))
        added = 4.0 * adapter[f"{path}.lora_b"] @ adapter[f"{path}.lora_a"]
        step = np.repeat(np.abs(fused[1]), 32, axis=-1)
        # As near as the bits allow: half a step of the group, and what its ends were moved by.
        assert (np.abs(fused[0] - (base[0] + added)) <= 1.01 * step + 1e-6).all()


def unpacked(folder: Path, path: str) -> tuple[Any, Any]:
    """Return a layer's weights, and the steps of its groups."""
    arrays: Any = mx.load(str(folder / "model.safetensors"))
    weight, scales, biases = (arrays[f"{path}.{name}"] for name in ("weight", "scales", "biases"))
    plain = mx.dequantize(weight, scales, biases, group_size=32, bits=8)
    return np.array(plain), np.array(scales)


def test_an_engine_answers_with_it(tmp_path: Path) -> None:
    trained(tmp_path, "qwen3_moe", bits=4)
    loaded = load(
        tmp_path / "model",
        model_id="tiny",
        plan=PLAN,
        defaults=SamplingParams(),
        memory_budget_gb=None,
        adapter=tmp_path / "out",
    )
    served = loaded.model(mx.arange(12)[None])
    assert difference(served, logits(tmp_path / "model", tmp_path / "out")) < 0.01


@pytest.mark.parametrize("scaling", ["by_bits", "by_kl"])
def test_ranks_of_experts_differ(tmp_path: Path, scaling: str) -> None:
    folder = tmp_path / "model"
    make_model(folder, config=tiny_config("qwen3_moe") | {"eos_token_id": 256}, bits=4)
    config = json.loads((folder / "config.json").read_text())
    weights: Any = mx.load(str(folder / "model.safetensors"))
    path = "model.layers.1.mlp.switch_mlp.up_proj"
    plain = mx.random.normal((4, 32, 64)) * 0.1
    for name, part in zip(("weight", "scales", "biases"), mx.quantize(plain, 32, 8), strict=True):
        weights[f"{path}.{name}"] = part
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    config["quantization"][path] = {"group_size": 32, "bits": 8}
    (folder / "config.json").write_text(json.dumps(config))
    others = [f"model.layers.{n}.mlp.switch_mlp.{name}" for n in range(4) for name in _NAMES]
    kls = {other: {"kl": 0.2 if other == path else 0.1} for other in others}
    (folder / KL_FILE).write_text(json.dumps({"per_layer": kls}))
    write_rows(tmp_path / "data", sums(6))
    train(config_of(tmp_path, rank_scaling=scaling, target_modules=list(_NAMES)), tmp_path)
    adapter = tensors(tmp_path / "out", "adapters.safetensors")
    used = {
        name.removesuffix(".lora_b"): int((np.abs(array).max(axis=(0, 1)) > 0).sum())
        for name, array in adapter.items()
        if name.endswith("lora_b")
    }
    assert used == {other: 8 if other == path else 4 for other in others}
    fuse(folder, tmp_path / "out", tmp_path / "fused")
    assert logits(folder, tmp_path / "out").shape == logits(tmp_path / "fused").shape


def test_experts_are_left_out_where_names_say_so(tmp_path: Path) -> None:
    asked = ["q_proj", "shared_expert.up_proj"]
    notes = trained(tmp_path, "qwen2_moe", target_modules=asked)
    assert not any("experts" in note for note in notes)
    adapter = tensors(tmp_path / "out", "adapters.safetensors")
    ends = {".".join(name.split(".")[3:-1]) for name in adapter}
    assert ends == {"self_attn.q_proj", "mlp.shared_expert.up_proj"}
    assert read_card(tmp_path / "out").layers == 8
    fuse(tmp_path / "model", tmp_path / "out", tmp_path / "fused")
    with_adapter = logits(tmp_path / "model", tmp_path / "out")
    assert difference(logits(tmp_path / "fused"), with_adapter) < _NEAR


def test_routers_are_trained_by_name_alone() -> None:
    model = build("deepseek_v3")
    usual = {target.key.rsplit(".", 1)[-1] for target in find_targets(model, config_names(), 0)}
    assert "q_a_proj" in usual
    model = build("mixtral")
    usual = {target.key.rsplit(".", 1)[-1] for target in find_targets(model, config_names(), 0)}
    assert "gate" not in usual
    assert [t.key for t in find_targets(model, ("gate",), 1)] == ["block_sparse_moe.gate"]


def config_names() -> tuple[str, ...]:
    return TrainConfig().target_modules


@pytest.mark.parametrize("bits", [None, 4])
def test_the_time_is_that_of_the_experts_that_are_chosen(bits: int | None) -> None:
    model = build("qwen3_moe")
    if bits:
        nn.quantize(model, group_size=32, bits=bits)
    told = SimpleNamespace(model=model, config=tiny_config("qwen3_moe"))
    # Two of four are idle, in four layers with three projections of 64 x 32.
    assert _idle(cast("TrainModel", told)) == 4 * 2 * 3 * 64 * 32
    told.model = build("llama")
    assert _idle(cast("TrainModel", told)) == 0


def as_originals_store_it(folder: Path) -> None:
    """Have a Mixtral's experts lie apart, as on the Hub."""
    weights: Any = mx.load(str(folder / "model.safetensors"))
    apart: dict[str, Any] = {}
    for name, array in weights.items():
        head, _, tail = name.partition(".switch_mlp.")
        if not tail:
            apart[name] = array
            continue
        which = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}[tail.split(".")[0]]
        apart |= {f"{head}.experts.{n}.{which}.weight": array[n] for n in range(array.shape[0])}
    mx.save_safetensors(str(folder / "model.safetensors"), apart, metadata={"format": "pt"})


def test_a_model_whose_experts_lie_apart_is_written_anew(tmp_path: Path) -> None:
    make_model(tmp_path / "model", config=tiny_config("mixtral") | {"eos_token_id": 256})
    wanted = logits(tmp_path / "model")
    as_originals_store_it(tmp_path / "model")
    assert difference(logits(tmp_path / "model"), wanted) == 0
    write_rows(tmp_path / "data", sums(6))
    train(config_of(tmp_path, iters=3), tmp_path)
    done = fuse(tmp_path / "model", tmp_path / "out", tmp_path / "fused")
    assert done.anew
    assert done.layers == 28
    with_adapter = logits(tmp_path / "model", tmp_path / "out")
    assert difference(logits(tmp_path / "fused"), with_adapter) < _NEAR
    before = tensors(tmp_path / "model", "model.safetensors")
    after = tensors(tmp_path / "fused", "model.safetensors")
    same = [name for name in before if name in after and np.array_equal(before[name], after[name])]
    assert len(same) == done.tensors_kept
