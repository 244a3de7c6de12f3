"""A model computed layer by layer, so that one layer at a time need be in memory.

The layers of most architectures are a plain row: each takes the hidden states [B, T, D] that the
one before it made, and arguments (a mask) that do not depend on them. Whether that is so is tried
on a short text. Used where a model is quantized, measured, or too large to be held whole.

`B` rows, `T` tokens, `D` hidden size, `V` vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_map

from core.engine.split import Split, row_of, split_model, standing

_TRIAL = (3, 1, 4, 1, 5, 9, 2, 6)


class NotARowError(Exception):
    """The layers of an architecture do not form a plain row; the text is the reason, a clause."""


@dataclass(frozen=True, kw_only=True)
class States:
    """Some rows on their way through a model."""

    tokens: mx.array
    """[B, T]."""
    hidden: mx.array
    """What goes into the next layer, [B, T, D]."""
    calls: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...]
    """For each layer its arguments beside the hidden states."""


class Blocks:
    """A model as a row of layers. Computes without caches: whole sequences from their beginning."""

    def __init__(self, model: Any, *, tried: int | None = None) -> None:
        """Take a model apart and try whether its layers are a row.

        Args:
            model: the mlx-lm module.
            tried: only this many layers, the first ones, take part in the trial, because the
                weights of all would not fit in memory; None: all.

        Raises:
            NotARowError: they are not.
        """
        self.model = model
        row = row_of(model)
        before = model.parameters()
        some = [*row[:tried], *[_passing] * len(row[tried:])] if tried else list(row)
        try:
            widen(model)  # MLX has no mixtures of experts in 16 bits on CPUs
            with standing(row, some):
                self._split: Split = split_model(model)
                self._try(len(row) if tried is None else tried)
        except NotARowError:
            raise
        except Exception as problem:  # foreign code, called in a way it may not know
            raise NotARowError(_clause(problem)) from problem
        finally:
            model.update(before)

    @property
    def layers(self) -> list[Any]:
        """The layers, in the very list that the model goes through."""
        return self._split.layers

    @property
    def vocabulary(self) -> int:
        """`V`."""
        return self._split.vocabulary

    def begin(self, tokens: mx.array) -> States:
        """Return rows before the first layer: embedded, and with the arguments of every layer."""
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        entry: list[mx.array] = []

        def passing(hidden: mx.array, *rest: Any, **more: Any) -> mx.array:
            entry.append(hidden)
            calls.append((rest, more))
            return hidden

        with standing(self.layers, [passing] * len(self.layers)):
            self._body(tokens)
        if len(calls) != len(self.layers) or any(each is not entry[0] for each in entry):
            raise NotARowError("its layers are not called one after another")
        return States(tokens=tokens, hidden=entry[0], calls=tuple(calls))

    def through(self, index: int, states: States) -> States:
        """Return rows after a layer.

        Args:
            index: the layer's, from 0.
            states: the rows before it.
        """
        rest, more = states.calls[index]
        hidden = self.layers[index](states.hidden, *rest, **more)
        if not isinstance(hidden, mx.array):
            raise NotARowError("its layers give more than hidden states")
        return States(tokens=states.tokens, hidden=hidden, calls=states.calls)

    def finish(self, states: States) -> mx.array:
        """Return what the head turns into logits: rows after the last layer and the norm.

        Where the head is not known apart from the body, these are the logits themselves.
        """
        calls: list[Callable[..., Any]] = [lambda *_args, **_more: states.hidden]
        with standing(self.layers, calls * len(self.layers)):
            return self._body(states.tokens)

    def head(self, hidden: mx.array) -> mx.array:
        """Return logits [.., V] of what `finish` returned."""
        return self._split.head(hidden)

    def release(self, index: int) -> None:
        """Let go of a layer's arrays; it can be called no more."""
        layer: nn.Module = self.layers[index]
        layer.update(tree_map(lambda _array: mx.zeros((0,)), layer.parameters()))

    def _body(self, tokens: mx.array) -> mx.array:
        found = self._split.body(tokens)
        if not isinstance(found, mx.array):
            raise NotARowError("it gives more than logits")
        return found

    def _try(self, count: int) -> None:
        tokens = mx.array([[token % self.vocabulary for token in _TRIAL]])
        states = self.begin(tokens)
        for index in range(count):
            states = self.through(index, states)
        found, expected = self.head(self.finish(states)), self.model(tokens)
        if not bool(mx.allclose(found, expected, rtol=1e-4, atol=1e-4).item()):
            raise NotARowError("layer by layer it computes something else than as a whole")


def widen(module: nn.Module) -> None:
    """Make a module compute in float32, lazily; its arrays in other types are let go of."""
    module.update(
        tree_map(
            lambda each: (
                each.astype(mx.float32) if mx.issubdtype(each.dtype, mx.floating) else each
            ),
            module.parameters(),
        )
    )


def _passing(hidden: mx.array, *_args: Any, **_more: Any) -> mx.array:
    return hidden


def _clause(problem: Exception) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:200]
