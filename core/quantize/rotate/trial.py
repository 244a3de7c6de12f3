"""Whether a rotated model computes what it computed before: tried, for every architecture.

Both models run on a short text in float32 on the CPU, with caches: layers that share keys and
values do so only then. A model that is too large to be held whole
runs with one layer of each kind; the others pass their input on.

`T` tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache

from core.engine.split import row_of, standing

TOLERANCE = 1e-3
"""Largest difference of logits, in units of their standard deviation. Rounding of float32 stays two
orders of magnitude below it, a tensor that was forgotten two above."""

_TOKENS = 24
_WHOLE = 1 << 28  # numbers in a model that is tried with all its layers: 1 GB
_AGREEING = 0.75  # share of positions; a router that wavers between two experts may flip


def difference(original: Any, rotated: Any) -> float:
    """Return by how much two models in float32 differ; NaN where either gives no numbers.

    Args:
        original: the mlx-lm module; its arrays need not be computed yet.
        rotated: the other one.
    """
    chosen = _chosen(original)
    tables = [each for each in original.modules() if isinstance(each, nn.Embedding)]
    vocabulary = min(table.weight.shape[0] for table in tables)
    with mx.stream(mx.cpu):
        tokens = mx.array([[(7 + 37 * index) % vocabulary for index in range(_TOKENS)]])
        before, after = (_logits(each, tokens, chosen) for each in (original, rotated))
        apart = mx.max(mx.abs(before - after), axis=-1) / mx.std(before, axis=-1)  # [T]
        if not bool(mx.all(mx.isfinite(apart)).item()):
            return float("nan")
        return float(mx.sort(apart)[int(_AGREEING * (_TOKENS - 1))].item())


def _logits(model: Any, tokens: mx.array, chosen: Sequence[int]) -> mx.array:
    row, cache = row_of(model), make_prompt_cache(model)
    if len(chosen) == len(row):
        found = model(tokens, cache=cache)
    else:
        some = [layer if index in chosen else _passing for index, layer in enumerate(row)]
        with standing(row, some):
            found = model(tokens, cache=cache)
    logits: mx.array = found[0].astype(mx.float32)
    mx.eval(logits)
    return logits


def _chosen(model: Any) -> list[int]:
    """Return the layers that take part: all, or the first of each kind."""
    row = row_of(model)
    if sum(array.size for _, array in tree_flatten(model.parameters())) <= _WHOLE:
        return list(range(len(row)))
    kinds = {_kind(layer): index for index, layer in reversed(list(enumerate(row)))}
    return sorted(kinds.values())


def _kind(layer: Any) -> tuple[Any, ...]:
    arrays = tree_flatten(layer.parameters())
    return (type(layer), *((path, array.shape) for path, array in arrays))


def _passing(hidden: mx.array, *_args: Any, **_more: Any) -> mx.array:
    return hidden
