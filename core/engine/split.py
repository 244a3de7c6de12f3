"""A model in its parts: what makes hidden states, its row of layers, and the head.

`B` rows, `T` tokens, `N` tokens that count, `D` hidden size, `V` vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

Head = Callable[[mx.array], mx.array]
"""Hidden states [N, D] to logits [N, V]."""

_PROBE = 5  # tokens that the split is checked with
_CHUNK_BYTES = 16 * 10**6
_LEAST_CHUNK = 16


@dataclass(frozen=True, kw_only=True)
class Split:
    """A model in two parts."""

    body: Callable[..., mx.array]
    """Tokens [B, T], and perhaps `cache=`, to hidden states [B, T, D]; where the head is not known,
    to logits."""
    head: Head
    """The rest."""
    layers: list[Any]
    """The transformer layers: the very list that the body goes through."""
    known: bool
    """Whether the head was found."""
    vocabulary: int
    """`V`."""


def split_model(model: Any) -> Split:
    """Return a model's body and head, or the whole model as the body if no head is found.

    Which of the usual heads a model has is found by trying: what does not give the model's own
    logits to the last bit is none.
    """
    tokens = mx.arange(_PROBE)[None]
    expected = model(tokens)  # [1, 5, V]
    vocabulary = int(expected.shape[-1])
    owner = getattr(model, "language_model", model)
    inner = getattr(owner, "model", None)
    layers = getattr(inner, "layers", None)
    hidden = _states(inner, tokens)
    if inner is not None and isinstance(layers, list) and hidden is not None:
        for head in _heads(owner, inner):
            logits = head(hidden)
            if logits.shape == expected.shape and bool(mx.array_equal(logits, expected).item()):
                return Split(
                    body=inner, head=head, layers=layers, known=True, vocabulary=vocabulary
                )
    return Split(body=model, head=_same, layers=row_of(model), known=False, vocabulary=vocabulary)


def chunk_tokens(vocabulary: int) -> int:
    """Return how many tokens' float32 logits take 16 MB."""
    return max(_LEAST_CHUNK, _CHUNK_BYTES // (4 * vocabulary))


def row_of(model: Any) -> list[Any]:
    """Return the list of layers that a model goes through."""
    layers = getattr(
        getattr(getattr(model, "language_model", model), "model", None), "layers", None
    )
    return layers if isinstance(layers, list) else model.layers


def _states(inner: Any, tokens: mx.array) -> mx.array | None:
    """Return a body's output; None: it is none, or is called with more than tokens."""
    try:
        found = inner(tokens)
    except TypeError:
        return None
    return found if isinstance(found, mx.array) else None


def _heads(owner: Any, inner: Any) -> list[Head]:
    """Return what a model may do to its last hidden states."""
    linear: list[Head] = []
    if "lm_head" in owner:
        linear.append(owner.lm_head)
    if "embed_tokens" in inner:
        linear.append(_tied(inner))
    args = getattr(owner, "args", None)
    after = [_same, *_scalings(args)]
    return [_then(first, second) for first in linear for second in after]


def _tied(inner: Any) -> Head:
    """Return the embedding as a head; its method is looked up at each call, as a module's is."""

    def head(hidden: mx.array) -> mx.array:
        found: mx.array = inner.embed_tokens.as_linear(hidden)
        return found

    return head


def _scalings(args: Any) -> list[Head]:
    """Return what models do to their logits, by the numbers in their configuration."""
    found: list[Head] = []
    if cap := _number(args, "final_logit_softcapping"):
        found.append(lambda logits: mx.tanh(logits / cap) * cap)
    if divisor := _number(args, "logits_scaling"):
        found.append(lambda logits: logits / divisor)
    if factor := _number(args, "logit_scale"):
        found.append(lambda logits: logits * factor)
    return found


def _number(args: Any, name: str) -> float | None:
    value = getattr(args, name, None)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _then(first: Head, second: Head) -> Head:
    return first if second is _same else lambda hidden: second(first(hidden))


def _same(hidden: mx.array) -> mx.array:
    return hidden


class _Stand:
    """Stands for a layer in a model's list; whatever else it is asked, the layer answers."""

    def __init__(self, layer: Any, call: Callable[..., Any]) -> None:
        self._layer = layer
        self._call = call

    @property  # type: ignore[misc]  # bodies choose masks by `isinstance`
    def __class__(self) -> type:
        return type(self._layer)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


@contextmanager
def standing(layers: list[Any], calls: Sequence[Callable[..., Any]]) -> Iterator[None]:
    """Have a body call something else in place of each of its layers within the block.

    Args:
        layers: the very list that the body goes through.
        calls: for each layer what is called with its arguments.
    """
    before = list(layers)
    try:
        layers[:] = [_Stand(each, call) for each, call in zip(before, calls, strict=True)]
        yield
    finally:
        layers[:] = before
