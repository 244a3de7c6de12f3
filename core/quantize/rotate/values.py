"""Rotation of value channels: each head's values v become v Q, and the output layer takes it back.

Attention adds values up with weights of its own, so a rotation of the channels within a head passes
it. Queries and keys are left alone: norms and position encodings work on their channels. Nothing
outside of attention changes, and a tied embedding stays tied.

`D` channels of a head, `n` hidden size.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from core.engine.split import row_of
from core.quantize.rotate.roles import row_path
from core.quantize.rotate.steps import Step, Steps
from core.quantize.rotate.turn import Rotation, can_turn, seeded_rotation

_HEADS = ("n_heads", "num_heads", "num_attention_heads", "n_head")
_OUTPUTS = ("o_proj", "out_proj", "dense", "c_proj")
_FUSED = ("qkv_proj", "query_key_value", "c_attn")


def value_steps(model: Any, *, seed: int) -> Steps:
    """Return what the rotation does to each tensor; none where no attention is of the usual form.

    Each layer has a matrix of its own, which all its heads share.
    """
    steps: Steps = {}
    row = row_path(model)
    for index, layer in enumerate(row_of(model)):
        for name, module in layer.named_modules():
            path = f"{row}.{index}.{name}"
            steps |= _attention_steps(module, path, seed=seed)
    return steps


def _attention_steps(module: Any, path: str, *, seed: int) -> Steps:
    """Return the steps of one attention; none where a module is not one of the usual form."""
    heads = next((getattr(module, name) for name in _HEADS if hasattr(module, name)), None)
    output = next((name for name in _OUTPUTS if name in module), None)
    if not isinstance(heads, int) or output is None or "kv_a_proj_with_mqa" in module:
        return {}
    weight = getattr(module[output], "weight", mx.zeros(0))
    if weight.ndim != 2 or weight.shape[1] % heads or not can_turn(weight.shape[1] // heads):
        return {}
    size = weight.shape[1] // heads
    source = _source(module, heads, size)
    if source is None:
        return {}
    name, first = source
    rotation = seeded_rotation(size, seed=seed, name=f"values of {path}")
    steps: Steps = {f"{path}.{output}.weight": [_taking(rotation)]}
    for kind in ("weight", "bias"):
        if kind in module[name]:
            steps[f"{path}.{name}.{kind}"] = [_giving(rotation, first)]
    return steps


def _source(module: Any, heads: int, size: int) -> tuple[str, int] | None:
    """Return the linear layer that makes values, and the first of its rows that do."""
    if "v_proj" in module:
        rows = module.v_proj.weight.shape[0]
        return ("v_proj", 0) if rows % size == 0 else None
    for name in _FUSED:
        if name in module:
            rows = module[name].weight.shape[0] - heads * size  # those of keys, then of values
            fits = rows > 0 and rows % (2 * size) == 0
            return (name, heads * size + rows // 2) if fits else None
    return None


def _giving(rotation: Rotation, first: int) -> Step:
    """Return the step of what makes values: rows from `first` on are channels, head by head."""

    def step(array: mx.array, dtype: mx.Dtype) -> mx.array:
        with mx.stream(mx.cpu):
            values = array[first:]
            if array.ndim == 1:
                turned = rotation.of_rows(values.reshape(-1, rotation.size), dtype=dtype)
            else:
                heads = values.reshape(-1, rotation.size, array.shape[1])
                turned = rotation.of_columns(heads, dtype=dtype)
            turned = turned.reshape(values.shape)
            return mx.concatenate([array[:first].astype(dtype), turned]) if first else turned

    return step


def _taking(rotation: Rotation) -> Step:
    """Return the step of what takes values in: its columns are channels, head by head."""

    def step(array: mx.array, dtype: mx.Dtype) -> mx.array:
        with mx.stream(mx.cpu):
            heads = array.reshape(array.shape[0], -1, rotation.size)
            return rotation.of_rows(heads, dtype=dtype).reshape(array.shape)

    return step
