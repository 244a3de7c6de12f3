"""From tokens to log-probabilities without ever holding all logits.

A model is split into what makes hidden states and the head that turns each into logits. The
log-probability of a token depends on its own hidden state alone, so the head is applied to chunks
of tokens; and as it is frozen, each chunk's gradient ∂ log p / ∂ h is known in the forward pass and
kept [N, D] instead of the logits [N, V] (the idea of Liger's fused linear cross-entropy,
arXiv:2410.10989; here per token, so that any loss can follow).

`B` rows, `T` tokens, `N` tokens that count, `D` hidden size, `V` vocabulary.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import mlx.core as mx

from core.engine.split import Head

Kind = Literal["flash", "chunked", "whole"]
"""`flash`: chunks, gradients kept from the forward pass; `chunked`: chunks, computed twice;
`whole`: all logits at once."""


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
