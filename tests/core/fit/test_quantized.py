"""What headers become by a quantization, against what MLX makes of the same models."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from core.fit.candidate import ModelFiles, candidate_of
from core.fit.quantized import Width, is_router, making, quantized, unpacked
from core.fit.weights import Tensor, weigh
from tests.core.fit.tiny_families import build

FAMILIES = (
    "llama", "qwen3", "gemma3_text", "mixtral", "qwen3_moe", "qwen2_moe", "deepseek_v2", "lfm2",
    "mamba", "gpt_oss", "phi3", "granitemoehybrid", "llama4",
)  # fmt: skip
_NAMES = {mx.float32: "F32", mx.bfloat16: "BF16", mx.uint32: "U32", mx.uint8: "U8"}


def _headers(model: Any) -> list[Tensor]:
    return [
        Tensor(name=name, dtype=_NAMES[array.dtype], shape=array.shape, nbytes=array.nbytes)
        for name, array in tree_flatten(model.parameters())
    ]


def _files(tensors: list[Tensor], **config: Any) -> ModelFiles:
    return ModelFiles(
        model_id="org/name", revision="1", folder=None, config=config, tensors=tensors
    )


def _sizes(tensors: Any) -> dict[str, tuple[tuple[int, ...], int]]:
    return {t.name: (t.shape, t.nbytes) for t in tensors}


def _packable(_path: str, module: Any) -> bool:
    return hasattr(module, "to_quantized") and module.weight.shape[-1] % 32 == 0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("bits", "mode"), [(4, "affine"), (3, "affine"), (4, "mxfp4")])
def test_headers_become_what_mlx_packs(family: str, bits: int, mode: str) -> None:
    model = build(family)
    model.set_dtype(mx.bfloat16)
    files = _files(_headers(model))
    form = Width(bits=bits, group_size=32, mode=mode)
    made = _sizes(quantized(files, lambda _tensor: form, called="x").tensors)
    nn.quantize(model, group_size=32, bits=bits, mode=mode, class_predicate=_packable)
    packed = _sizes(_headers(model))
    # Some families keep routers as plain arrays, which their names do not tell.
    routers = {name for name in packed if is_router(name)}
    bases = {name.removesuffix("weight") for name in routers}
    rest = {name for name in made | packed if not name.startswith(tuple(bases) or "-")}
    assert {n: made.get(n) for n in rest} == {n: packed.get(n) for n in rest}


def test_what_was_packed_is_unpacked_first() -> None:
    model = build("llama")
    model.set_dtype(mx.bfloat16)
    plain = _headers(model)
    nn.quantize(model, group_size=32, bits=4, class_predicate=_packable)
    files = _files(_headers(model), quantization={"group_size": 32, "bits": 4})
    assert _sizes(unpacked(files)) == _sizes(plain)
    made = quantized(files, lambda _: Width(bits=8, group_size=32), called="8-bit")
    again = quantized(_files(plain), lambda _: Width(bits=8, group_size=32), called="8-bit")
    assert _sizes(made.tensors) == _sizes(again.tensors)
    weights = weigh(made.tensors, made.config)
    assert weights.parameters == weigh(plain, {}).parameters


def test_fp8_and_its_scales_become_bfloat16() -> None:
    fp8 = Tensor(name="a.weight", dtype="F8_E4M3", shape=(4, 64), nbytes=256)
    scale = Tensor(name="a.weight_scale_inv", dtype="F32", shape=(1, 1), nbytes=4)
    (whole,) = unpacked(_files([fp8, scale]))
    assert (whole.dtype, whole.nbytes) == ("BF16", 512)


def test_what_does_not_fit_stays() -> None:
    tensors = [
        Tensor(name=name, dtype="BF16", shape=shape, nbytes=2 * shape[0] * shape[-1])
        for name, shape in {
            "model.layers.0.mlp.up_proj.weight": (8, 48),
            "model.layers.0.norm.weight": (64, 1),
            "vision_tower.blocks.0.weight": (64, 64),
            "model.layers.0.conv1d.weight": (64, 64),
        }.items()
    ]
    files = _files(tensors)
    made = quantized(
        files,
        lambda tensor: None if "norm" in tensor.name else Width(bits=4, group_size=64),
        called="x",
    )
    assert made.tensors == tensors


def test_the_making_needs_its_output_and_the_largest_tensor() -> None:
    up = Tensor(name="model.layers.0.up.weight", dtype="BF16", shape=(64, 64), nbytes=8192)
    head = Tensor(name="lm_head.weight", dtype="BF16", shape=(128, 64), nbytes=16384)
    files = _files([up, head])
    made = quantized(files, lambda _: Width(bits=4, group_size=64), called="4-bit")
    found = making(files, made)
    assert found.disk_bytes == (64 + 128) * (32 + 4)
    assert found.memory_bytes == 2 * 16384 + 128 * 36


def test_a_quantized_candidate_has_a_name_of_its_own() -> None:
    model = build("llama")
    model.set_dtype(mx.bfloat16)
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 4, "intermediate_size": 128}
    files = _files(_headers(model), **config)
    found = candidate_of(quantized(files, lambda _: Width(bits=4, group_size=32), called="4-bit"))
    assert (found.model_id, found.revision) == ("org/name (4-bit)", "1+4-bit")
    assert found.weights.packed
