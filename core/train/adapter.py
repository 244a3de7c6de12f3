"""Adapters as files, in mlx-lm's format, so that plain mlx-lm loads them.

That format has one rank and one scale for all layers. Where layers differ, the matrices are filled
up with zeros to the largest rank and the scale is moved into B; the product stays the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import safetensors.numpy

from core.errors import BadModelFiles, UsageProblem
from core.paths import atomic_write
from core.registry.adapters import CONFIG, WEIGHTS, read_lora_form
from core.train.config import TrainConfig, recipe_of
from core.train.lora import Arrays, adapters_of, set_trainable, trainable
from core.train.model import TrainModel

NumpyArrays = dict[str, Any]
"""Arrays of numpy's by name."""


def write_adapter(
    folder: Path, trained: TrainModel, values: Arrays, config: TrainConfig, *, base: str
) -> None:
    """Write an adapter, each file whole or not at all.

    Args:
        folder: made if it is not there.
        trained: the model that it was trained on.
        values: A and B by their paths.
        config: of the training.
        base: what users call the model.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    rank, scale = common_form(trained.model)
    arrays = to_common_form(trained.model, values, rank, scale)
    with atomic_write(folder / WEIGHTS) as file:
        file.write(safetensors.numpy.save(arrays, metadata={"format": "mlx"}))
    content = {
        "fine_tune_type": "lora",
        "model": base,
        "num_layers": config.num_layers if config.num_layers > 0 else len(trained.model.layers),
        "lora_parameters": {
            "rank": rank,
            "scale": scale,
            "dropout": config.lora_dropout,
            "keys": sorted({target.key for target in trained.targets}),
        },
        "mlxbun": recipe_of(config),
    }
    with atomic_write(folder / CONFIG) as file:
        file.write((json.dumps(content, indent=2) + "\n").encode())


def common_form(model: Any) -> tuple[int, float]:
    """Return the largest rank of a model's adapters, and the scale that all are given."""
    adapters = adapters_of(model).values()
    rank = max(_rank(adapter) for adapter in adapters)
    return rank, float(max(adapter.scale for adapter in adapters))


def to_common_form(model: Any, values: Arrays, rank: int, scale: float) -> NumpyArrays:
    """Return A and B of one rank and one scale that compute what they did before."""
    found: NumpyArrays = {}
    for path, adapter in adapters_of(model).items():
        a, b = (np.array(values[f"{path}.{name}"]) for name in ("lora_a", "lora_b"))
        if adapter.scale != scale:
            b = b * np.float32(adapter.scale / scale)
        experts = a.ndim == 3
        found[f"{path}.lora_a"] = _filled(a, 1, rank)
        found[f"{path}.lora_b"] = _filled(b, 2 if experts else 0, rank)
    return found


def warm_start(trained: TrainModel, folder: Path) -> None:
    """Begin from an adapter that is there already.

    Raises:
        BadModelFiles: it cannot be read.
        UsageProblem: its layers or its rank are others than those that are trained.
    """
    arrays, scale = read_adapter(folder)
    mine = trainable(trained.model)
    if set(arrays) != set(mine):
        raise UsageProblem(f"The adapter in {folder} is for other layers than those to be trained.")
    arrays = {name: without_filling(array, mine[name].shape) for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.shape != mine[name].shape:
            raise UsageProblem(
                f"The adapter in {folder} has the shape {array.shape} for {name}, where "
                f"{tuple(mine[name].shape)} is trained.",
                hint="Set rank to that of the adapter.",
            )
    scales = {path: adapter.scale for path, adapter in adapters_of(trained.model).items()}
    values: Arrays = {}
    for name, array in arrays.items():
        factor = scale / scales[name.rsplit(".", 1)[0]] if name.endswith("lora_b") else 1.0
        values[name] = mx.array(array.astype(np.float32) * np.float32(factor))
    set_trainable(trained.model, values)


def read_adapter(folder: Path) -> tuple[NumpyArrays, float]:
    """Return an adapter's A and B, and its scale.

    Raises:
        BadModelFiles: it is broken, or of another kind than LoRA.
    """
    form = read_lora_form(folder)
    assert form.scale is not None
    try:
        loaded: Mapping[str, mx.array] = mx.load(str(folder / WEIGHTS))  # type: ignore[assignment]
        # bfloat16, which numpy has not, becomes float32 without loss.
        arrays = {name: np.array(value.astype(mx.float32)) for name, value in loaded.items()}
    except (OSError, ValueError, RuntimeError) as problem:
        raise BadModelFiles(f"{folder / WEIGHTS} cannot be read: {problem}.") from problem
    return arrays, form.scale


def without_filling(array: Any, shape: Sequence[int]) -> Any:
    """Return a matrix without the zeros that it was filled up with to a larger rank.

    Args:
        array: as a file has it.
        shape: that is wanted; where it cannot be had without loss, the matrix stays as it is.
    """
    if array.ndim != len(shape) or any(a < b for a, b in zip(array.shape, shape, strict=True)):
        return array
    kept = array[tuple(map(slice, shape))]
    return kept if np.count_nonzero(kept) == np.count_nonzero(array) else array


def _rank(adapter: Any) -> int:
    return int(adapter.lora_a.shape[1])  # [I, R], of experts [E, R, I]


def _filled(array: Any, axis: int, rank: int) -> Any:
    missing = rank - array.shape[axis]
    if not missing:
        return array
    widths = [(0, missing if each == axis else 0) for each in range(array.ndim)]
    return np.pad(array, widths)
