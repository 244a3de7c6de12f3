"""What a training will take: memory and time, before it begins.

The time is the arithmetic of all steps over the rate at which this machine multiplies matrices of
the model's shape, which is measured in a fraction of a second. The memory is what lies there all
the time and what the largest batch keeps for its backward pass. Both are estimates for the usual
transformer; for other architectures they are only a hint.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from core.engine.split import chunk_tokens
from core.machine.threads import ThreadKeeper
from core.train.config import TrainConfig
from core.train.data import Dataset, item_length, sequences
from core.train.lora import SWITCHES
from core.train.model import TrainModel

# Of the rate of bare products, what a whole step reaches: measured on SmolLM2-135M, 64 to 512
# tokens, on a CPU.
_REACHED = 0.5
# Floats per token and layer that a backward pass keeps, in multiples of the hidden size and of the
# MLP's: norms, projections and residuals; gate, up and their product.
_KEPT_HIDDEN, _KEPT_MLP = 10, 5
# Experts that a token meets, by the names that configurations have for that.
_CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k")
_ROWS = 256  # of the product that is measured
_REPEATS = 4


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a training is thought to take."""

    memory_bytes: int
    """At its peak."""
    seconds: float
    """All steps, with the validations."""
    budget_bytes: int
    """Memory that there is for it."""

    @property
    def fits(self) -> bool:
        """Whether the memory is there."""
        return self.memory_bytes <= self.budget_bytes


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """The sizes of a usual transformer."""

    layers: int
    hidden: int
    mlp: int
    heads: int
    vocabulary: int


def estimate(config: TrainConfig, trained: TrainModel, data: Dataset) -> Estimate | None:
    """Return what a training will take; None where the architecture does not tell its sizes."""
    shape = _shape(trained.config, trained.split.vocabulary)
    if shape is None:
        return None
    return Estimate(
        memory_bytes=_memory(config, trained, data, shape),
        seconds=_flops(config, trained, data, shape) / (_REACHED * _rate(trained, shape)),
        budget_bytes=trained.budget_bytes,
    )


def memory_needed(config: TrainConfig, trained: TrainModel, data: Dataset) -> int | None:
    """Return bytes at a training's peak; None where the architecture does not tell its sizes."""
    shape = _shape(trained.config, trained.split.vocabulary)
    return None if shape is None else _memory(config, trained, data, shape)


def _memory(config: TrainConfig, trained: TrainModel, data: Dataset, shape: _Shape) -> int:
    """Return bytes: weights, adapters with gradients and moments, activations, logits."""
    rows = config.batch_size * (2 if config.pairs else 1)
    longest = max(len(part.tokens) for item in data.train for part in sequences(item))
    layer = _KEPT_HIDDEN * shape.hidden + _KEPT_MLP * shape.mlp + 2 * shape.heads * longest
    at_once = config.segment_size or (1 if config.grad_checkpoint else shape.layers)
    at_once = min(at_once, shape.layers)
    kept = at_once * layer + (shape.layers * shape.hidden if at_once < shape.layers else 0)
    counted = rows * longest
    if trained.split.known and config.orpo_fused_ce:
        counted = min(counted, config.chunk_size or chunk_tokens(shape.vocabulary))
    floats = rows * longest * kept + 3 * counted * shape.vocabulary
    # A and B, their gradients and two moments, and the step's new ones beside the old; a reference
    # that is an adapter is kept beside them.
    copies = 6 + (trained.reference is not None)
    return trained.weights_bytes + 4 * (floats + copies * trained.trainable_parameters)


def _flops(config: TrainConfig, trained: TrainModel, data: Dataset, shape: _Shape) -> float:
    """Return the multiplications and additions of all steps and validations."""
    mean = data.train_tokens / len(data.train)
    step = mean * config.batch_size * config.grad_accumulation_steps
    body = max(0, trained.parameters - shape.vocabulary * shape.hidden - _idle(trained))
    attention = 2 * shape.layers * shape.hidden * mean
    forward = 2 * (body + shape.vocabulary * shape.hidden + attention)
    saved = bool(config.grad_checkpoint or config.segment_size)
    passes = 2 + saved + (config.method == "dpo")
    adapters = 6 * trained.trainable_parameters
    measured = sum(map(item_length, data.measured))
    times = 2 + (config.iters // config.steps_per_eval if config.steps_per_eval else 0)
    return config.iters * step * (passes * forward + adapters) + times * measured * forward


def _idle(trained: TrainModel) -> int:
    """Return the weights of a mixture's experts that one token does not meet."""
    sizes = trained.config.get("text_config") or trained.config
    chosen = next((n for name in _CHOSEN if (n := _count(sizes.get(name)))), 0)
    if not chosen:
        return 0
    layers = (m for m in trained.model.modules() if isinstance(m, SWITCHES))
    return sum(max(0, m.num_experts - chosen) * m.input_dims * m.output_dims for m in layers)


def _rate(trained: TrainModel, shape: _Shape) -> float:
    """Return additions and multiplications a second of a product of the model's shape."""
    layer = trained.split.layers[0]
    linear = next((m for m in layer.modules() if "lora_a" in m and m.lora_a.ndim == 2), None)
    if linear is None:
        weight = mx.ones((shape.mlp, shape.hidden))
        return _timed(
            lambda x: x @ weight.T, shape.hidden, 2 * shape.mlp * shape.hidden, trained.threads
        )
    inputs, outputs = linear.lora_a.shape[0], linear.lora_b.shape[1]
    return _timed(linear.linear, inputs, 2 * inputs * outputs, trained.threads)


def _timed(product: Any, inputs: int, flops: int, threads: ThreadKeeper | None) -> float:
    if threads and (count := threads.wanted(stale=math.inf)):
        threads.apply(count)
    x = mx.ones((_ROWS, inputs))
    mx.eval(product(x))
    start = time.perf_counter()
    for _ in range(_REPEATS):
        mx.eval(product(x))
    return _REPEATS * _ROWS * flops / max(1e-9, time.perf_counter() - start)


def _shape(config: Mapping[str, Any], vocabulary: int) -> _Shape | None:
    sizes = config.get("text_config") or config
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads")
    values = [_count(sizes.get(name)) for name in names]
    if not all(values):
        return None
    layers, hidden, mlp, heads = values
    return _Shape(layers=layers, hidden=hidden, mlp=mlp, heads=heads, vocabulary=vocabulary)


def _count(value: Any) -> int:
    """Return a size, 0 where it is none."""
    return value if isinstance(value, int) and value > 0 else 0
