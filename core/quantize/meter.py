"""Measures how far a model's output is from what it was, while its weights are changed.

The layers before a changed one are not computed again: their output is kept. Of the reference only
a few numbers per token and its last hidden states are kept, not its logits: where the head is
affine (z = W h + b), with p the original probabilities and h0 the hidden states without the change,

    KL(h) - KL(h0) = logsumexp(z) - logsumexp(z0) - c (h - h0),    c = W' p.

Other heads (with a cap on their logits), and changes that may touch the head itself, take the
original logits again from the kept hidden states.

`B` rows, `T` tokens, `N` = B T tokens, `D` hidden size, `V` vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from core.engine.blocks import Blocks, States

_CHUNK_BYTES = 64 * 10**6
_LEAST_CHUNK = 16
_KEPT_BYTES = 4 * 10**9  # of the reference and of the states before a layer
_AFFINE = 1e-4  # relative
_GROUP = 256  # terms summed in a row
_BROKEN = 1e4  # nats: a token whose output is not finite


Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]
"""Arguments of calls, by position and by name."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Divergence of a changed model from the original over calibration rows."""

    kl: float
    """Mean KL divergence in nats per token."""
    error: float | None
    """Its standard error over rows; None: a single row."""


@contextmanager
def placed(module: Any, weight: mx.array) -> Iterator[None]:
    """Have a module use another weight within the block."""
    before = module.weight
    try:
        module.weight = weight
        yield
    finally:
        module.weight = before


@contextmanager
def _watched(module: Any) -> Iterator[Calls]:
    """Note the arguments of a module's calls within the block."""
    kind: Any = type(module)
    calls: Calls = []

    class Watched(kind):  # type: ignore[misc]
        def __call__(self, *args: Any, **more: Any) -> Any:
            calls.append((args, more))
            return kind.__call__(self, *args, **more)

    module.__class__ = Watched  # a stand-in in its place would be no child of its layer
    try:
        yield calls
    finally:
        module.__class__ = kind


@dataclass(frozen=True, kw_only=True)
class _Target:
    """What the outputs for one batch are compared with."""

    shape: tuple[int, ...]
    """B and T."""
    original: mx.array
    """Last hidden states of the original, [N, D]."""
    hidden: mx.array
    """Those of the baseline, [N, D]."""
    mean: mx.array | None
    """c: what the original expects of a change of the logits, [N, D]; None: general head."""
    level: mx.array
    """logsumexp of the baseline's logits, [N]."""
    rest: mx.array
    """logsumexp of the same logits above `level`, [N]: zero but for rounding."""
    base: mx.array
    """KL of the baseline, [N]."""


class Meter:
    """Measures a model whose weights are changed by its caller. For one thread."""

    def __init__(
        self,
        model: Any,
        blocks: Blocks | None,
        rows: Sequence[mx.array],
        *,
        heads: Sequence[Any] = (),
        on_note: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Compute the original output. The weights are the original ones.

        Args:
            model: the mlx-lm module.
            blocks: the same model layer by layer, or None.
            rows: batches [B, T].
            heads: modules that may be part of the head, and may be changed.
            on_note: called with what is worth knowing.
        """
        self._model, self._blocks = model, blocks
        self._rows = list(rows)
        self._heads = [(module, module.weight) for module in heads]
        self._index = 0
        self._states: list[States] = []
        self._originals = []
        kept = 0
        for number, tokens in enumerate(self._rows):
            self._originals.append(self._final(tokens))
            kept += 4 * self._originals[-1].nbytes
            if kept > _KEPT_BYTES and number + 1 < len(self._rows):
                self._rows = self._rows[: number + 1]
                on_note(
                    f"The sweep uses {number + 1} of {len(rows)} calibration batches: the states "
                    "of more do not fit in memory."
                )
                break
        self._targets: list[_Target] = []

    @property
    def tokens(self) -> int:
        """How many tokens it measures on."""
        return sum(batch.size for batch in self._rows)

    def settle(self) -> float:
        """Take the weights as they are now for the baseline; return its mean KL."""
        self._targets = []
        for tokens, original in zip(self._rows, self._originals, strict=True):
            self._targets.append(self._target(tokens, original, self._final(tokens)))
        if self._blocks:
            self._states = [self._blocks.begin(tokens) for tokens in self._rows]
            self._index = 0
        return _mean([(target.base, target.shape) for target in self._targets]).kl

    def inside(self) -> Loss:
        """Measure a change within the layer that the states stand before, above the baseline."""
        assert self._blocks is not None
        found = []
        for state, target in zip(self._states, self._targets, strict=True):
            hidden = _flat(self._blocks.finish(self._through(state, self._index)))
            values = self._above(hidden, target)
            mx.eval(values)
            found.append((values, target.shape))
        return _mean(found)

    def outside(self) -> Loss:
        """Measure a change anywhere, above the baseline."""
        bases = [target.base for target in self._targets]
        return self._whole(bases)

    def whole(self) -> Loss:
        """Measure the model as it is, against the original."""
        return self._whole([0.0] * len(self._rows))

    def _whole(self, bases: Sequence[Any]) -> Loss:
        found = []
        for tokens, original, base in zip(self._rows, self._originals, bases, strict=True):
            values = self._general(self._final(tokens), original) - base
            mx.eval(values)
            found.append((values, tuple(tokens.shape)))
        return _mean(found)

    def calls(self, modules: Sequence[Any]) -> list[Calls]:
        """Return how modules of the layer that the states stand before are called.

        Args:
            modules: of that layer.

        Returns:
            For each module the arguments of its calls on the first batch.
        """
        assert self._blocks is not None
        with ExitStack() as stack:
            found = [stack.enter_context(_watched(module)) for module in modules]
            mx.eval(self._blocks.through(self._index, self._states[0]).hidden)
        return found

    def step(self) -> None:
        """Lead the states through the next layer."""
        assert self._blocks is not None
        after = [self._blocks.through(self._index, state) for state in self._states]
        mx.eval([state.hidden for state in after])
        self._states = after
        self._index += 1

    def _through(self, state: States, index: int) -> States:
        assert self._blocks is not None
        for each in range(index, len(self._blocks.layers)):
            state = self._blocks.through(each, state)
        return state

    def _final(self, tokens: mx.array) -> mx.array:
        """Return the last hidden states [N, D], or logits where the head is not known."""
        if self._blocks is None:
            found = _flat(self._model(tokens))
        else:
            states = self._through(self._blocks.begin(tokens), 0)
            found = _flat(self._blocks.finish(states))
        mx.eval(found)
        return found

    def _head(self, hidden: mx.array) -> mx.array:
        wide = hidden.astype(mx.float32)  # logits of 16 bits would drown small divergences
        return wide if self._blocks is None else self._blocks.head(wide).astype(mx.float32)

    def _original_head(self, hidden: mx.array) -> mx.array:
        with ExitStack() as stack:
            for module, weight in self._heads:
                stack.enter_context(placed(module, weight))
            return self._head(hidden)

    def _target(self, tokens: mx.array, original: mx.array, hidden: mx.array) -> _Target:
        affine = self._is_affine(hidden)
        levels, rests, means, bases = [], [], [], []
        for part in self._chunks(hidden):
            logps = _normal(self._original_head(original[part]))
            ps = mx.exp(logps)
            ps = ps / _sum(ps)[:, None]
            wide = hidden[part].astype(mx.float32)
            (logits,), (mean,) = mx.vjp(self._head, [wide], [ps])
            levels.append(mx.logsumexp(logits, axis=-1))
            rests.append(_level(logits, levels[-1]))
            bases.append(_divergence(logps, _normal(logits)))
            means.append(mean if affine else mx.zeros((0,)))
            mx.eval(levels[-1], rests[-1], bases[-1], means[-1])
        return _Target(
            shape=tuple(tokens.shape),
            original=original,
            hidden=hidden,
            mean=mx.concatenate(means) if affine else None,
            level=mx.concatenate(levels),
            rest=mx.concatenate(rests),
            base=mx.concatenate(bases),
        )

    def _above(self, hidden: mx.array, target: _Target) -> mx.array:
        """Return how much more hidden states diverge than the baseline's [N]."""
        if target.mean is None:
            return self._general(hidden, target.original) - target.base
        levels = [
            _level(self._head(hidden[part]), target.level[part]) for part in self._chunks(hidden)
        ]
        expected = (target.mean * (hidden - target.hidden).astype(mx.float32)).sum(axis=-1)
        values = mx.concatenate(levels) - target.rest - expected
        if bool(mx.isfinite(values).all().item()):
            return values
        return self._general(hidden, target.original) - target.base

    def _general(self, hidden: mx.array, original: mx.array) -> mx.array:
        """Return the KL of hidden states, through the head as it is now, from the original [N]."""
        found = []
        for part in self._chunks(hidden):
            logps = _normal(self._original_head(original[part]))
            found.append(_divergence(logps, _normal(self._head(hidden[part]))))
            mx.eval(found[-1])
        return mx.concatenate(found)

    def _chunks(self, hidden: mx.array) -> list[slice]:
        wide = hidden.shape[-1] if self._blocks is None else self._blocks.vocabulary
        size = max(_LEAST_CHUNK, _CHUNK_BYTES // (4 * wide))
        return [slice(start, start + size) for start in range(0, hidden.shape[0], size)]

    def _is_affine(self, hidden: mx.array) -> bool:
        first, second = hidden[:1], hidden[-1:] * 3
        middle = self._head((first + second) / 2)
        expected = (self._head(first) + self._head(second)) / 2
        size = mx.abs(expected).max()
        return bool((mx.abs(middle - expected).max() <= _AFFINE * size).item())


def _normal(logits: mx.array) -> mx.array:
    """Return log-probabilities [.., V]."""
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)


def _divergence(logps: mx.array, others: mx.array) -> mx.array:
    """Return KL(p || q) of log-probabilities [N, V] as [N].

    p and q both sum to 1, so that sum p (e^d - 1) = 0 for d = log q - log p: no term of the sum
    below is negative, and rounding stays small beside it.
    """
    apart = others - logps
    return (mx.exp(logps) * (mx.expm1(apart) - apart)).sum(axis=-1)


def _level(logits: mx.array, above: mx.array) -> mx.array:
    """Return logsumexp of logits [N, V] above a number near it [N]; inf: it is far above.

    The difference of two of `mx.logsumexp` would lose a hundred-thousandth to rounding.
    """
    return mx.log(_sum(mx.exp(logits - above[:, None])))


def _sum(values: mx.array) -> mx.array:
    """Return sums over the last axis of [N, V], in groups so that rounding does not add up."""
    whole = values.shape[-1] // _GROUP * _GROUP
    parts = (
        values[:, :whole]
        .reshape(values.shape[0], whole // _GROUP, _GROUP)
        .sum(axis=-1)
        .sum(axis=-1)
    )
    return parts + values[:, whole:].sum(axis=-1)


def _flat(states: mx.array) -> mx.array:
    return states.reshape(-1, states.shape[-1])


def _mean(parts: Sequence[tuple[mx.array, tuple[int, ...]]]) -> Loss:
    """Return the mean of values per token [N] over all tokens, and its error over rows."""
    rows: list[float] = []
    finite = [(mx.where(mx.isfinite(part), part, _BROKEN), shape) for part, shape in parts]
    for part, (count, *_) in finite:
        rows += part.reshape(count, -1).mean(axis=1).tolist()
    total = sum(float(part.sum().item()) for part, _ in finite)
    tokens = sum(part.size for part, _ in parts)
    middle = sum(rows) / len(rows)
    spread = sum((value - middle) ** 2 for value in rows)
    error = math.sqrt(spread / (len(rows) - 1) / len(rows)) if len(rows) > 1 else None
    return Loss(kl=total / tokens, error=error)
