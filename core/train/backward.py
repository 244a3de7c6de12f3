"""Gradients of a loss over the adapters: at once, recomputing layers, or by segments of layers.

All give the same gradients. At once keeps every activation. `segmented` keeps each segment's input
and computes its layers again when their gradients are due (Chen et al. 2016, arXiv:1604.06174); it
evaluates after each segment, so that no more than one segment's activations exist at any moment,
whatever order MLX would choose. `checkpointed` leaves the same to MLX, layer by layer: for
architectures whose layers are no plain row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten

from core.engine.split import Split, standing
from core.errors import UsageProblem
from core.train.lora import Arrays, set_trainable, trainable

Values = tuple[mx.array, ...]
"""The loss, a scalar, and whatever else is worth knowing."""
Finish = Callable[[mx.array], Values]
"""From the body's output [B, T, D] to the loss and the rest."""

# What architectures call the part of a layer that takes each token by itself.
_MLPS = ("mlp", "feed_forward", "block_sparse_moe", "shared_mlp", "ffn")
_PIECE = 256  # tokens of a sequence that a split MLP computes together


def value_and_grads(
    model: Any, split: Split, tokens: mx.array, finish: Finish
) -> tuple[Values, Arrays]:
    """Return what `finish` does, and the loss's gradients by the adapters' paths.

    Args:
        model: with adapters.
        split: its parts.
        tokens: [B, T].
        finish: makes the loss.
    """
    before = trainable(model)

    def loss(values: Arrays) -> Values:
        set_trainable(model, values)
        return finish(split.body(tokens))

    try:
        value, grads = mx.value_and_grad(loss)(before)
    finally:
        set_trainable(model, before)
    return value, grads


def segmented_value_and_grads(
    model: Any, split: Split, tokens: mx.array, finish: Finish, *, size: int
) -> tuple[Values, Arrays]:
    """Return the same as `value_and_grads`, computed backwards over `size` layers at a time.

    Raises:
        UsageProblem: the layers are not a plain row, each of which takes the last one's output.
    """
    with _refusing_others():
        inputs, calls = _record(split, tokens, size)
        value, (slope,) = _tail(split, tokens, inputs.pop(), finish)
    mx.eval(value, slope)
    paths = {id(module): path for path, module in model.named_modules()}
    grads: Arrays = {}
    for first in reversed(range(0, len(split.layers), size)):
        layers = split.layers[first : first + size]
        found, slope = _segment(layers, calls[first : first + size], inputs.pop(), slope)
        for layer, arrays in zip(layers, found, strict=True):
            grads |= {f"{paths[id(layer)]}.{name}": array for name, array in arrays.items()}
        mx.eval(slope, grads)
    return value, {name: grads[name] for name in trainable(model)}


@contextmanager
def checkpointed(layers: list[Any]) -> Iterator[None]:
    """Have every layer recomputed in backward passes within the block."""
    with _replaced_calls({type(layer) for layer in layers}, _checkpoint_layer):
        yield


@contextmanager
def split_mlps(layers: list[Any]) -> Iterator[None]:
    """Have the layers' MLPs computed in pieces of the sequence, and again in backward passes.

    Raises:
        UsageProblem: the layers have none.
    """
    kinds = {type(layer[name]) for layer in layers for name in _MLPS if name in layer}
    if not kinds:
        raise UsageProblem("mlp_split does nothing: the layers of this model have no MLP.")
    with _replaced_calls(kinds, _split_mlp):
        yield


@contextmanager
def _replaced_calls(kinds: set[type], wrap: Callable[[Any], Any]) -> Iterator[None]:
    """Put another `__call__` on classes within the block, as mlx-lm's checkpointing does."""
    calls = {kind: kind.__dict__.get("__call__") for kind in kinds}
    try:
        for kind in kinds:
            kind.__call__ = wrap(kind.__call__)  # type: ignore[method-assign]
        yield
    finally:
        for kind, call in calls.items():
            if call is None:
                del kind.__call__
            else:
                kind.__call__ = call  # type: ignore[method-assign]


def _checkpoint_layer(call: Any) -> Any:
    def again(layer: Any, *args: Any, **kwargs: Any) -> Any:
        def inner(values: Any, *args: Any, **kwargs: Any) -> Any:
            layer.update(values)
            return call(layer, *args, **kwargs)

        return mx.checkpoint(inner)(layer.trainable_parameters(), *args, **kwargs)

    return again


def _split_mlp(call: Any) -> Any:
    whole = _checkpoint_layer(call)

    def pieces(mlp: Any, x: mx.array) -> mx.array:  # [.., T, D] -> [.., T, D]
        starts = range(0, x.shape[-2], _PIECE)
        return mx.concatenate([whole(mlp, x[..., s : s + _PIECE, :]) for s in starts], axis=-2)

    return pieces


Call = tuple[tuple[Any, ...], dict[str, Any]]


def _record(split: Split, tokens: mx.array, size: int) -> tuple[list[mx.array], list[Call]]:
    """Compute forwards; return the segments' inputs, the last output, and the layers' arguments."""
    inputs: list[mx.array] = []
    calls: list[Call] = []
    last: list[mx.array] = []

    def recording(layer: Any, index: int) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> mx.array:
            if not args or index != len(calls) or (last and args[0] is not last[0]):
                raise _no_row()
            hidden, *rest = args
            if index % size == 0:
                mx.eval(hidden)
                inputs.append(_kept(hidden))
            calls.append((tuple(rest), kwargs))
            found = layer(hidden, *rest, **kwargs)
            if not isinstance(found, mx.array):
                raise _no_row()
            last[:] = [found, _kept(found)]
            return found

        return call

    with standing(split.layers, [recording(layer, i) for i, layer in enumerate(split.layers)]):
        split.body(tokens)
    if len(calls) != len(split.layers):
        raise _no_row()
    mx.eval(last[1])
    return [*inputs, last[1]], calls


def _kept(array: mx.array) -> mx.array:
    """Return an array that stays as it is when a body writes into it in place."""
    return mx.stop_gradient(array)


def _tail(
    split: Split, tokens: mx.array, hidden: mx.array, finish: Finish
) -> tuple[Values, list[mx.array]]:
    """Return what `finish` does with the last layer's output, and the loss's gradient by that."""

    def loss(values: list[mx.array]) -> Values:
        calls = [lambda *_args, **_more: values[0]] * len(split.layers)
        with standing(split.layers, calls):
            return finish(split.body(tokens))

    value, grads = mx.value_and_grad(loss)([hidden])
    return value, grads


def _segment(
    layers: list[Any], calls: list[Call], hidden: mx.array, slope: mx.array
) -> tuple[list[Arrays], mx.array]:
    """Return the gradients by some layers' adapters and by their input."""
    before = [layer.trainable_parameters() for layer in layers]
    flat = [(i, name, v) for i, each in enumerate(before) for name, v in tree_flatten(each)]

    def run(values: list[mx.array]) -> list[mx.array]:
        h, *rest = values
        changed: list[list[tuple[str, mx.array]]] = [[] for _ in layers]
        for (index, name, _), value in zip(flat, rest, strict=True):
            changed[index].append((name, value))
        for layer, named, (args, kwargs) in zip(layers, changed, calls, strict=True):
            layer.update(tree_unflatten(named))
            h = layer(h, *args, **kwargs)
        return [h]

    try:
        primals = [hidden, *(value for _, _, value in flat)]
        _, (down, *found) = mx.vjp(lambda *values: run(list(values)), primals, [slope])
    finally:
        for layer, values in zip(layers, before, strict=True):
            layer.update(values)
    grads: list[Arrays] = [{} for _ in layers]
    for (index, name, _), array in zip(flat, found, strict=True):
        grads[index][name] = array
    return grads, down


@contextmanager
def _refusing_others() -> Iterator[None]:
    """Turn into a refusal what a body does that asks its layers for more than their outputs."""
    try:
        yield
    except (AttributeError, TypeError, ValueError) as problem:
        raise _no_row() from problem


def _no_row() -> UsageProblem:
    return UsageProblem(
        "segment_size does not work with this architecture: its layers are no plain row.",
        hint="Use grad_checkpoint instead.",
    )
