"""Rotation of the residual stream: x becomes x Q in every place between two layers.

The embedding and all that writes to the stream give rotated vectors; all that reads from it,
routers included, takes them back. A norm before a reader commutes with Q once its weight is 1, so
weights of norms are folded into the readers, that of the last norm into the head. A tied embedding
cannot hold both, therefore the head becomes a tensor of its own.

`n` hidden size.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx import nn

from core.engine.split import row_of
from core.quantize.rotate.roles import (
    MIXER_NORMS,
    MIXERS,
    MLP_NORMS,
    MLPS,
    POST_NORMS,
    READERS,
    WRITERS,
    CannotRotateError,
    Gain,
    Places,
    gain_of,
    is_norm,
    module_at,
    parameters,
)
from core.quantize.rotate.steps import Step, Steps, filled
from core.quantize.rotate.turn import LARGEST_ODD, Rotation, can_turn, seeded_rotation

Gains = dict[str, Gain]
"""For each norm of a layer, by its name."""


def residual_steps(model: Any, places: Places, *, seed: int) -> Steps:
    """Return what the rotation does to each tensor of a model whose head is its own.

    Raises:
        CannotRotateError: the roles of its tensors are not known, or rotations do not pass its
            norms.
    """
    if places.head is None:
        raise CannotRotateError("its head is tied to the embedding")
    if not can_turn(places.size):
        raise CannotRotateError(
            f"its hidden size {places.size} has an odd factor above {LARGEST_ODD}"
        )
    rotation = seeded_rotation(places.size, seed=seed, name="residual")
    steps: Steps = {f"{places.embedding}.weight": [_reading(rotation, None)]}
    for index, layer in enumerate(row_of(model)):
        steps |= _layer_steps(layer, f"{places.row}.{index}", rotation)
    last = None
    if places.norm is not None:
        last = gain_of(module_at(model, places.norm), places.norm, places.size)
        steps |= _neutral(last)
    return steps | {f"{places.head}.weight": [_reading(rotation, last)]}


def _layer_steps(layer: Any, path: str, rotation: Rotation) -> Steps:
    gains = _gains(layer, path, rotation.size)
    steps: Steps = {}
    for gain in gains.values():
        steps |= _neutral(gain)
    for name, child in layer.items():
        if name in gains or not _has_arrays(child):
            continue
        if name not in MIXERS | MLPS or not isinstance(child, nn.Module):
            raise CannotRotateError(f"the role of {path}.{name} is unknown")
        steps |= _block_steps(child, f"{path}.{name}", rotation, _gain_before(name, gains))
    return steps


def _gains(layer: Any, path: str, size: int) -> Gains:
    if after := POST_NORMS & set(layer):
        raise CannotRotateError(f"it has norms after attention and MLP ({path}.{min(after)})")
    found: Gains = {}
    for name, child in layer.items():
        if not is_norm(child):
            continue
        if name not in MIXER_NORMS | MLP_NORMS:
            raise CannotRotateError(f"the role of {path}.{name} is unknown")
        found[name] = gain_of(child, f"{path}.{name}", size)
    return found


def _gain_before(block: str, gains: Gains) -> Gain | None:
    """Return the gain of the norm before a part of a layer; the only norm stands before all."""
    names = MIXER_NORMS if block in MIXERS else MLP_NORMS
    some = {name: gain for name, gain in gains.items() if name in names} or gains
    if len(some) > 1:
        raise CannotRotateError(f"several norms stand before {block} ({', '.join(some)})")
    return next(iter(some.values()), None)


def _block_steps(block: Any, path: str, rotation: Rotation, gain: Gain | None) -> Steps:
    """Return the steps of a mixer or an MLP."""
    steps: Steps = {}
    arrays = parameters(block)
    owners = {name.rpartition(".")[0] for name in arrays}
    for name, array in arrays.items():
        owner, _, kind = name.rpartition(".")
        role = _role(owner or path, owners)
        if role == "reads" and kind == "weight" and array.shape[-1] == rotation.size:
            steps[f"{path}.{name}"] = [_reading(rotation, gain)]
        elif role == "writes" and array.ndim > 1 and kind == "weight":
            steps[f"{path}.{name}"] = [_writing(rotation)]
        elif role == "writes" and kind == "bias":
            steps[f"{path}.{name}"] = [_reading(rotation, None)]
    return steps


def _role(owner: str, owners: set[str]) -> str | None:
    """Return whether a linear layer reads the residual or writes to it."""
    before, _, name = owner.rpartition(".")
    beside = f"{before}." if before else ""
    if name == "w2" and f"{beside}c_proj" in owners:
        return "reads"  # Qwen's first models call the MLP's inputs w1 and w2
    if name in WRITERS:
        return "writes"
    return "reads" if name in READERS else None


def _reading(rotation: Rotation, gain: Gain | None) -> Step:
    def step(array: mx.array, dtype: mx.Dtype) -> mx.array:
        return rotation.of_rows(array, dtype=dtype, gain=gain.factors() if gain else None)

    return step


def _writing(rotation: Rotation) -> Step:
    def step(array: mx.array, dtype: mx.Dtype) -> mx.array:
        return rotation.of_columns(array, dtype=dtype)

    return step


def _neutral(gain: Gain) -> Steps:
    return {gain.path: [filled(1.0 - gain.offset)]}


def _has_arrays(child: Any) -> bool:
    if isinstance(child, list):
        return any(_has_arrays(each) for each in child)
    return isinstance(child, mx.array) or (isinstance(child, nn.Module) and bool(parameters(child)))
