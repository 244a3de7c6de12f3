"""From tokens to log-probabilities without ever holding all logits.

A model is split into what makes hidden states and the head that turns each into logits. The
log-probability of a token depends on its own hidden state alone, so the head is applied to chunks
of tokens; and as it is frozen, each chunk's gradient ∂ log p / ∂ h is known in the forward pass and
kept [N, D] instead of the logits [N, V] (the idea of Liger's fused linear cross-entropy,
arXiv:2410.10989; here per token, so that any loss can follow).

`B` rows, `T` tokens, `N` tokens that count, `D` hidden size, `V` vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import mlx.core as mx

Head = Callable[[mx.array], mx.array]
"""Hidden states [N, D] to logits [N, V]."""
Kind = Literal["flash", "chunked", "whole"]
"""`flash`: chunks, gradients kept from the forward pass; `chunked`: chunks, computed twice;
`whole`: all logits at once."""

_CHUNK_BYTES = 16 * 10**6
_LEAST_CHUNK = 16
_PROBE = 5  # tokens that the split is checked with


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
    """Whether the head could be told from the body."""
    vocabulary: int
    """`V`."""


def split_model(model: Any) -> Split:
    """Return a model's body and head, or the whole as a body where they cannot be told.

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
    known_layers = layers if isinstance(layers, list) else model.layers
    return Split(body=model, head=_same, layers=known_layers, known=False, vocabulary=vocabulary)


def _states(inner: Any, tokens: mx.array) -> mx.array | None:
    """Return a body's output; None: it is none, or is called with more than tokens."""
    try:
        found = inner(tokens)
    except TypeError:
        return None
    return found if isinstance(found, mx.array) else None


def token_logps(
    hidden: mx.array, targets: mx.array, head: Head, *, kind: Kind, chunk: int
) -> mx.array:
    """Return the log-probability of each token [N], float32.

    Args:
        hidden: the states before them [N, D].
        targets: the tokens [N].
        head: frozen.
        kind: how.
        chunk: tokens of a chunk.
    """
    if kind == "whole":
        return _logps(head, hidden, targets)
    one = _with_kept_gradient if kind == "flash" else _computed_twice
    parts = [slice(start, start + chunk) for start in range(0, hidden.shape[0], chunk)]
    found = [one(head, hidden[part], targets[part]) for part in parts]
    return mx.concatenate(found) if len(found) > 1 else found[0]


def chunk_tokens(vocabulary: int) -> int:
    """Return how many tokens' float32 logits take 16 MB."""
    return max(_LEAST_CHUNK, _CHUNK_BYTES // (4 * vocabulary))


def _logps(head: Head, hidden: mx.array, targets: mx.array) -> mx.array:
    logits = head(hidden).astype(mx.float32)  # [N, V]
    chosen = mx.take_along_axis(logits, targets[:, None], axis=-1).squeeze(-1)
    return chosen - mx.logsumexp(logits, axis=-1)


def _computed_twice(head: Head, hidden: mx.array, targets: mx.array) -> mx.array:
    values: mx.array = mx.checkpoint(lambda h: _logps(head, h, targets))(hidden)
    return values


def _with_kept_gradient(head: Head, hidden: mx.array, targets: mx.array) -> mx.array:
    """Return log-probabilities whose gradient is computed along with them."""

    @mx.custom_function
    def both(h: mx.array) -> tuple[mx.array, mx.array]:
        # ∂ log p / ∂ logits = [is the target] - softmax, whose exponentials log p needs as well.
        plain = head(h)
        logits = plain.astype(mx.float32)  # [N, V]
        most = logits.max(axis=-1, keepdims=True)
        powers = mx.exp(logits - most)
        total = powers.sum(axis=-1, keepdims=True)
        rows = mx.arange(targets.shape[0])
        values = logits[rows, targets] - (most + mx.log(total)).squeeze(-1)
        slopes = (powers * (-1 / total)).at[rows, targets].add(1.0)
        _, (gradient,) = mx.vjp(head, [h], [slopes.astype(plain.dtype)])
        return values, gradient

    @both.vjp
    def both_vjp(_primals: Any, cotangents: Any, outputs: Any) -> Any:
        grown = cotangents[0][:, None] * outputs[1].astype(mx.float32)
        return grown.astype(hidden.dtype)

    values, _ = cast("tuple[mx.array, mx.array]", both(hidden))
    return values


def _heads(owner: Any, inner: Any) -> list[Head]:
    """Return what a model may do to its last hidden states."""
    linear: list[Head] = []
    if "lm_head" in owner:
        linear.append(owner.lm_head)
    if "embed_tokens" in inner:
        linear.append(inner.embed_tokens.as_linear)
    args = getattr(owner, "args", None)
    after = [_same, *_scalings(args)]
    return [_then(first, second) for first in linear for second in after]


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
