"""Tiny models and a held-out text for them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from core.evals.streams import How
from core.evals.subjects import Subject, folder_subject
from core.evals.table import Role
from tests.tiny import llama_config, make_model

HOW = How(budget_bytes=10**9)


@dataclass(frozen=True, kw_only=True)
class Text:
    """Random tokens."""

    rows: list[list[int]]
    domains: list[str]
    digest: str = "d" * 64


def text(*lengths: int, domains: str = "ab", seed: int = 0, vocabulary: int = 256) -> Text:
    """Return rows of these lengths, their domains in turn."""
    draw = random.Random(seed)
    rows = [[draw.randrange(vocabulary) for _ in range(length)] for length in lengths]
    return Text(rows=rows, domains=[domains[i % len(domains)] for i in range(len(rows))])


def subject(folder: Path, name: str, role: Role = "quantized") -> Subject:
    """Return a model in a folder."""
    return folder_subject(folder, name=name, role=role)


def pair(folder: Path, *, bits: int = 4, **config: Any) -> tuple[Subject, Subject]:
    """Write a random model and its quantization; return both."""
    first = make_model(folder / "base", config=llama_config(**config), seed=3)
    second = make_model(folder / "packed", config=llama_config(**config), seed=3, bits=bits)
    return subject(first, "base", "original"), subject(second, "packed")


def forms(packed: Subject, *, bits: int) -> dict[str, dict[str, Any]]:
    """Return a uniform baseline of a width for the layers that are packed in a model."""
    paths = [path for path, module in packed.open().named_modules() if hasattr(module, "scales")]
    return {path: {"bits": bits, "group_size": 32, "mode": "affine"} for path in paths}


def load_weights(file: Path) -> dict[str, mx.array]:
    """Return the tensors of a safetensors file."""
    found = mx.load(str(file))
    assert isinstance(found, dict)
    return found


def flip_scale(folder: Path, name: str, index: tuple[int, int] = (0, 0)) -> None:
    """Turn the sign of one scale in a written model."""
    file = folder / "model.safetensors"
    weights = load_weights(file)
    scales = weights[name]
    weights[name] = scales.at[index].multiply(-1.0)
    mx.eval(weights)
    mx.save_safetensors(str(file), weights, metadata={"format": "mlx"})
