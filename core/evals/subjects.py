"""The models that are compared. Each is opened again where it is measured.

A subject holds no arrays: opening one returns a module whose weights are read from the files when
they are computed with, and measuring uses that module up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.utils import compute_bits_per_weight, dequantize_model, load_model

from core.engine.blame import blaming_files
from core.engine.loader import refuse_absurd
from core.evals.table import Role

Forms = Mapping[str, Mapping[str, Any]]
"""Paths of packed layers to `bits`, `group_size` and `mode`, as config.json has them."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One model of a comparison."""

    name: str
    """What tables and errors call it."""
    role: Role
    """What it is measured for."""
    open: Callable[[], Any]
    """Returns a new mlx-lm module, its weights not evaluated yet."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a model is."""

    bits_per_weight: float
    """As `mlx_lm.utils.compute_bits_per_weight` counts: scales, biases and norms included."""
    size_bytes: int
    """Bytes of the tensors that mlx-lm loads."""


def folder_subject(folder: Path, *, name: str, role: Role) -> Subject:
    """Return the model in a folder, read from its files as they are on disk.

    Args:
        folder: a model folder.
        name: what tables and errors call it.
        role: what it is measured for.
    """

    def load() -> Any:
        with blaming_files(folder):
            refuse_absurd(folder)
            model, _config = load_model(folder, lazy=True)
        return model

    return Subject(name=name, role=role, open=load)


def packed_subject(original: Subject, forms: Forms, *, name: str) -> Subject:
    """Return another model packed by plain rounding, in memory: a uniform baseline.

    Args:
        original: whose weights are packed.
        forms: the layers to pack, and how; the others keep their type.
        name: what tables and errors call it.
    """

    def load() -> Any:
        model = dequantize_model(original.open())  # lazily, where it is packed already
        nn.quantize(model, class_predicate=lambda path, _module: dict(forms.get(path, {})) or False)
        return model

    return Subject(name=name, role="uniform", open=load)


def size_of(model: Any) -> Size:
    """Return how large a module is. Nothing is evaluated: arrays know their shapes before."""
    arrays = [value for _, value in tree_flatten(model.parameters())]
    return Size(
        bits_per_weight=float(compute_bits_per_weight(model)),
        size_bytes=sum(value.nbytes for value in arrays if isinstance(value, mx.array)),
    )
