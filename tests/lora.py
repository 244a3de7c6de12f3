"""Adapters in mlx-lm's form, made without a training, and ways to damage them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

LAYERS = {
    f"model.layers.{layer}.self_attn.{name}": shape
    for layer in range(2)
    for name, shape in (("q_proj", (64, 64)), ("v_proj", (32, 64)))
}
"""Layers of the tiny model of `tests.tiny`, with the shapes of their weights."""


def lora_weights(
    layers: Mapping[str, tuple[int, int]], *, rank: int, changes: Mapping[str, Any] | None = None
) -> bytes:
    """Return the file of an adapter's matrices.

    Args:
        layers: paths to the shapes of their weights [O, I].
        rank: of the matrices.
        changes: tensors by their names that are added or replaced; None: that are left out.
    """
    random = np.random.default_rng(0)
    tensors: dict[str, Any] = {}
    for path, (outputs, inputs) in layers.items():
        tensors[f"{path}.lora_a"] = random.normal(size=(inputs, rank)).astype(np.float32)
        tensors[f"{path}.lora_b"] = random.normal(size=(rank, outputs)).astype(np.float32)
    tensors |= changes or {}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    return safetensors.numpy.save(kept, metadata={"format": "mlx"})


def make_adapter(
    folder: Path,
    *,
    layers: Mapping[str, tuple[int, int]] = LAYERS,
    rank: int = 4,
    base: str | None = None,
    changes: Mapping[str, Any] | None = None,
    **config: Any,
) -> Path:
    """Write an adapter and return its folder.

    Args:
        folder: made if it is not there.
        layers: as `lora_weights`.
        rank: as `lora_weights`.
        base: the model that it names; None: none.
        changes: as `lora_weights`.
        config: fields of its configuration that are others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keys = sorted({path.split(".", 3)[3] for path in layers})
    said = {
        "fine_tune_type": "lora",
        "num_layers": 2,
        "lora_parameters": {"rank": rank, "scale": 0.1, "dropout": 0.0, "keys": keys},
    }
    said |= {"model": base} if base else {}
    (folder / "adapter_config.json").write_text(json.dumps(said | config))
    weights = lora_weights(layers, rank=rank, changes=changes)
    (folder / "adapters.safetensors").write_bytes(weights)
    return folder
