"""What is done to each tensor of a model that is rotated, as lazy expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx

from core.quantize.rotate.turn import working_type

Step = Callable[[mx.array, mx.Dtype], mx.array]
"""Takes a tensor and the type to return it in."""
Steps = dict[str, list[Step]]
"""For each path of a tensor what is done to it, in order."""


def joined(*parts: Steps) -> Steps:
    """Return several sets of steps as one."""
    made: Steps = {}
    for steps in parts:
        for path, some in steps.items():
            made.setdefault(path, []).extend(some)
    return made


def applied(
    arrays: Mapping[str, mx.array], steps: Steps, *, dtype: mx.Dtype | None = None
) -> dict[str, mx.array]:
    """Return all tensors after their steps; nothing is computed yet.

    Args:
        arrays: the tensors by their paths.
        steps: what is done to some of them.
        dtype: of every result; None: each tensor's own type, to which it is rounded once.
    """
    return {
        path: _stepped(array, steps.get(path, []), dtype or array.dtype)
        for path, array in arrays.items()
    }


def _stepped(array: mx.array, steps: list[Step], dtype: mx.Dtype) -> mx.array:
    working = working_type(array.dtype)
    for index, step in enumerate(steps):
        array = step(array, dtype if index == len(steps) - 1 else working)
    if array.dtype == dtype or not mx.issubdtype(array.dtype, mx.floating):
        return array
    with mx.stream(mx.cpu):
        return array.astype(dtype)


def filled(value: float) -> Step:
    """Return a step that sets every number to a value."""

    def step(array: mx.array, dtype: mx.Dtype) -> mx.array:
        with mx.stream(mx.cpu):
            return mx.full(array.shape, value, dtype=dtype)

    return step


def load(model: Any, arrays: Mapping[str, mx.array]) -> None:
    """Put tensors into a module.

    Raises:
        ValueError: names or shapes are not the module's own.
    """
    model.load_weights(list(arrays.items()), strict=True)
    model.eval()
