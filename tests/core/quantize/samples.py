"""Weights and correlated inputs that rounding is tried on."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from core.quantize.codes import Floats


def correlated(
    tokens: int = 512, inputs: int = 128, *, seed: int = 0, outliers: bool = True
) -> Floats:
    """Return inputs [tokens, inputs] that a layer may see: few directions, some large channels."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((inputs, inputs)) * np.exp(-np.arange(inputs) / 20)[:, None]
    found = rng.standard_normal((tokens, inputs)) @ directions
    found += 0.3 * rng.standard_normal(found.shape)
    if outliers:
        found[:, :: inputs // 4] *= 8
    return found.astype(np.float32)


def matrix(outputs: int = 64, inputs: int = 128, *, seed: int = 1) -> Floats:
    """Return weights [outputs, inputs], exact in float16."""
    rng = np.random.default_rng(seed)
    found: Floats = (0.05 * rng.standard_normal((outputs, inputs))).astype(np.float16)
    return found.astype(np.float32)


def as_half(weight: Floats) -> mx.array:
    """Return weights as float16 in MLX."""
    return mx.array(weight).astype(mx.float16)
