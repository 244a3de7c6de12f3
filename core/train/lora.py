"""Low-rank adapters on a model's linear layers (Hu et al. 2021, arXiv:2106.09685).

y = W x + s · B A x, A uniform within ±1/√in and B zero, so that training begins at the base model.
Names and shapes are mlx-lm's (`mlx_lm/tuner/lora.py`), so that its loader takes what is saved; what
differs is the dropout, whose mask follows from a key, so that a backward pass that computes a layer
again gets the same one.

`B` rows, `T` tokens, `I` inputs, `O` outputs, `R` rank, `E` experts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

from core.errors import UsageProblem
from core.train.config import PROJECTIONS

Arrays = dict[str, mx.array]
"""Parameters or gradients by their paths in the model."""

_PLAIN = (nn.Linear, nn.QuantizedLinear)
SWITCHES = (SwitchLinear, QuantizedSwitchLinear)
"""Linear layers of mixtures of experts."""
# Layers that choose among experts or tokens, by the names that architectures give them: whoever
# does not name them does not want them trained.
_CHOOSERS = {"gate", "router", "classifier", "layer", "shared_expert_gate", "weights_proj"}
_CHOOSING = {"router", "indexer"}


class _Adapter(nn.Module):  # type: ignore[misc]  # MLX tells no types
    """What both kinds of adapters share."""

    def __init__(self, scale: float, dropout: float) -> None:
        super().__init__()
        self.scale = scale
        self.drop = dropout
        self._dropout_key: mx.array | None = None

    def seed_dropout(self, key: mx.array | None) -> None:
        """Set the key of the next masks; None: nothing is dropped."""
        self._dropout_key = key

    @property
    def dropout_key(self) -> mx.array | None:
        """The key of the next masks."""
        return self._dropout_key

    def _dropped(self, x: mx.array) -> Any:
        if not self.drop or self._dropout_key is None:
            return x
        keep = 1 - self.drop
        mask = mx.random.bernoulli(keep, x.shape, key=self._dropout_key)
        return (mask * x) * (1 / keep)


class LoRALinear(_Adapter):
    """A linear layer with an adapter: `lora_a` [I, R], `lora_b` [R, O], float32."""

    def __init__(self, linear: Any, *, rank: int, scale: float, dropout: float, key: mx.array):
        super().__init__(scale, dropout)
        inputs = _inputs(linear)
        bound = 1 / math.sqrt(inputs)
        self.linear = linear
        self.lora_a = mx.random.uniform(-bound, bound, (inputs, rank), key=key)
        self.lora_b = mx.zeros((rank, linear.weight.shape[0]))

    def __call__(self, x: mx.array) -> Any:  # [.., I] -> [.., O]
        """Return the layer's output with the adapter's part."""
        y = self.linear(x)
        if not self.scale:
            return y
        z = (self._dropped(x) @ self.lora_a) @ self.lora_b
        return y + (self.scale * z).astype(x.dtype)


class LoRASwitchLinear(_Adapter):
    """The experts of a layer, an adapter each: `lora_a` [E, R, I], `lora_b` [E, O, R]."""

    def __init__(self, linear: Any, *, rank: int, scale: float, dropout: float, key: mx.array):
        super().__init__(scale, dropout)
        inputs, outputs, experts = linear.input_dims, linear.output_dims, linear.num_experts
        bound = 1 / math.sqrt(inputs)
        self.linear = linear
        self.lora_a = mx.random.uniform(-bound, bound, (experts, rank, inputs), key=key)
        self.lora_b = mx.zeros((experts, outputs, rank))

    def __call__(self, x: mx.array, indices: mx.array, sorted_indices: bool = False) -> Any:
        """Return the chosen experts' outputs with their adapters' parts."""
        y = self.linear(x, indices, sorted_indices=sorted_indices)
        if not self.scale:
            return y
        z = self._dropped(x)
        for factor in (self.lora_a, self.lora_b):
            z = mx.gather_mm(
                z,
                factor.swapaxes(-1, -2),
                rhs_indices=indices,
                sorted_indices=sorted_indices,
            )
        return y + (self.scale * z).astype(x.dtype)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A layer that gets an adapter."""

    path: str
    """In the model: `model.layers.0.self_attn.q_proj`."""
    key: str
    """In its transformer layer: `self_attn.q_proj`."""
    bits: float
    """Of its weights."""
    experts: int
    """That it is made of; 0: it is none of a mixture."""


def find_targets(model: Any, modules: tuple[str, ...], num_layers: int) -> list[Target]:
    """Return the linear layers that get adapters, in the order of the model.

    Args:
        model: an mlx-lm model whose weights are as on disk, so that their bits can be told.
        modules: last parts of their names, or more than one: `shared_expert.up_proj`. Where they
            are `PROJECTIONS` and the model has not all of those, every linear layer is meant but
            those that choose: architectures name their projections in many ways.
        num_layers: how many transformer layers from the last on; 0 or less: all.

    Raises:
        UsageProblem: a name fits none.
    """
    layers = list(model.layers)[-max(0, num_layers) :]
    paths = {id(module): path for path, module in model.named_modules()}
    named = [pair for layer in layers for pair in _linears(layer)]
    names = _named(modules, [key for key, _ in named])
    return [
        Target(
            path=paths[id(module)],
            key=key,
            bits=_bits(module),
            experts=module.num_experts if isinstance(module, SWITCHES) else 0,
        )
        for key, module in named
        if any(_means(name, key) for name in names)
    ]


def _named(modules: tuple[str, ...], keys: list[str]) -> tuple[str, ...]:
    """Return which of a model's layers are meant, by the ends of their names."""
    missing = [name for name in modules if not any(_means(name, key) for key in keys)]
    if not missing:
        return modules
    usual = tuple(key for key in dict.fromkeys(keys) if not _chooses(key))
    if modules == PROJECTIONS and usual:
        return usual
    available = sorted({key.rsplit(".", 1)[-1] for key in keys})
    raise UsageProblem(
        f"target_modules names {missing[0]!r}, which no layer of this model has.",
        hint=f"There are {', '.join(available)}." if available else None,
    )


def _means(name: str, key: str) -> bool:
    return key == name or key.endswith(f".{name}")


def _chooses(key: str) -> bool:
    *within, last = key.split(".")
    return last in _CHOOSERS or not _CHOOSING.isdisjoint(within)


def mount(
    model: Any,
    ranks: Mapping[str, int],
    *,
    scale: float,
    rs_lora: bool,
    dropout: float,
    seed: int,
) -> None:
    """Freeze a model and put adapters on its layers.

    Args:
        model: an mlx-lm model.
        ranks: paths of layers to the ranks of their adapters.
        scale: what the adapters' part is multiplied by; with `rs_lora` it is divided by √rank
            (Kalajdzievski 2023, arXiv:2312.03732).
        rs_lora: see `scale`.
        dropout: share of the adapters' inputs that is dropped while training.
        seed: of A.
    """
    model.freeze()
    modules = dict(model.named_modules())
    adapters = []
    for path, rank in ranks.items():
        module = modules[path]
        kind = LoRASwitchLinear if isinstance(module, SWITCHES) else LoRALinear
        adapter = kind(
            module,
            rank=rank,
            scale=scale / math.sqrt(rank) if rs_lora else scale,
            dropout=dropout,
            key=derived_key(seed, "A", path),
        )
        adapters.append((path, adapter))
    model.update_modules(tree_unflatten(adapters))


def adapters_of(model: Any) -> dict[str, Any]:
    """Return the mounted adapters by their paths."""
    return {path: m for path, m in model.named_modules() if isinstance(m, _Adapter)}


def trainable(model: Any) -> Arrays:
    """Return what is trained: all A and B."""
    return dict(tree_flatten(model.trainable_parameters()))


def set_trainable(model: Any, values: Mapping[str, mx.array]) -> None:
    """Put values in the place of what is trained."""
    model.update(tree_unflatten(list(values.items())))


def seed_dropout(model: Any, *parts: int) -> None:
    """Set the dropout of every adapter, from the seed, the step and whatever else tells it."""
    for path, adapter in adapters_of(model).items():
        if adapter.drop:
            adapter.seed_dropout(derived_key(*parts, path))


def stop_dropout(model: Any) -> None:
    """Let nothing be dropped: a measurement."""
    for adapter in adapters_of(model).values():
        adapter.seed_dropout(None)


@contextmanager
def reference_on(adapters: Mapping[str, Any], values: Arrays | None) -> Iterator[None]:
    """Compute as a preference method's reference within the block, without dropout.

    Args:
        adapters: of the model, as `adapters_of` returns them.
        values: the A and B of the reference; None: it is the base model.
    """
    if values is None:
        with adapters_off(adapters):
            yield
        return
    before = [(each, each.lora_a, each.lora_b, each.dropout_key) for each in adapters.values()]
    try:
        for path, adapter in adapters.items():
            adapter.lora_a, adapter.lora_b = values[f"{path}.lora_a"], values[f"{path}.lora_b"]
            adapter.seed_dropout(None)
        yield
    finally:
        for adapter, a, b, key in before:
            adapter.lora_a, adapter.lora_b = a, b
            adapter.seed_dropout(key)


@contextmanager
def adapters_off(adapters: Mapping[str, Any]) -> Iterator[None]:
    """Compute as the base model within the block."""
    scales = [(adapter, adapter.scale) for adapter in adapters.values()]
    try:
        for adapter, _ in scales:
            adapter.scale = 0.0
        yield
    finally:
        for adapter, scale in scales:
            adapter.scale = scale


def derived_key(*parts: int | str) -> Any:
    """Return a random key that follows from numbers and names, on every machine the same."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return mx.random.key(int.from_bytes(digest, "little"))


def _linears(layer: Any) -> list[tuple[str, Any]]:
    # What brings a LoRA of its own along gives something else than one array.
    return [
        (key, m)
        for key, m in layer.named_modules()
        if isinstance(m, _PLAIN + SWITCHES) and not hasattr(m, "to_lora")
    ]


def _bits(module: Any) -> float:
    return float(module.bits if hasattr(module, "bits") else 8 * module.weight.itemsize)


def _inputs(linear: Any) -> int:
    width = int(linear.weight.shape[-1])
    return width * 32 // int(linear.bits) if isinstance(linear, nn.QuantizedLinear) else width
