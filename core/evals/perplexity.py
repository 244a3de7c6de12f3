"""Perplexity of a model on token sequences, by the method of `mlx_lm.perplexity`.

Each sequence is computed from its beginning, without a cache; the loss of a token is its negative
log-probability in nats, from float32 logits. The head is applied to a few tokens at a time, so the
logits of a batch are never held whole.

`B` sequences, `T` tokens, `D` hidden size, `V` vocabulary.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from mlx import nn

from core.engine.split import Split, split_model
from core.errors import BadModelFiles
from core.progress import OnProgress, Progress, ignore_progress

if TYPE_CHECKING:
    from core.evals.documents import TokenRows
    from core.machine.threads import ThreadKeeper

_CHUNK_BYTES = 16 * 10**6  # of float32 logits
_LEAST_CHUNK = 16  # tokens
_MOST_LOSS = 700.0  # nats; exp of more is beyond float64


@dataclass(frozen=True, kw_only=True)
class Losses:
    """The losses of some tokens, summed up."""

    tokens: int
    """Number of tokens that were predicted."""
    mean: float
    """Mean loss in nats per token."""
    standard_error: float
    """Standard error of the mean, in nats; NaN for a single token."""

    @property
    def perplexity(self) -> float:
        """Exponential of the mean loss."""
        return math.exp(self.mean)

    @property
    def perplexity_error(self) -> float:
        """Standard error of the perplexity, by the delta method."""
        return self.perplexity * self.standard_error


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a measurement found."""

    whole: Losses
    """Of all tokens."""
    domains: Mapping[str, Losses]
    """Of each domain's."""
    seconds: float
    """Time of the computation, without loading."""
    peak_bytes: int
    """Most memory of the device in use meanwhile, weights included."""

    @property
    def tokens_per_second(self) -> float:
        """Predicted tokens per second."""
        return self.whole.tokens / self.seconds


def measure_perplexity(
    model: Any,
    rows: TokenRows,
    *,
    batch_size: int,
    threads: ThreadKeeper | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Measured:
    """Return the perplexity of a model.

    Args:
        model: the mlx-lm module.
        rows: at least one sequence.
        batch_size: sequences of equal length that are computed together.
        threads: keeps the BLAS from fighting for cores, or None.
        on_progress: hears of each batch.

    Raises:
        BadModelFiles: logits are not finite.
    """
    split = split_model(model)
    found: defaultdict[str, list[np.ndarray[Any, Any]]] = defaultdict(list)
    batches = list(_batches(rows, batch_size if split.known else 1))
    mx.reset_peak_memory()
    start = time.perf_counter()
    done = 0
    for batch in batches:
        if threads and (count := threads.wanted(stale=math.inf)):
            mx.synchronize()
            threads.apply(count)
        tokens = mx.array([rows.rows[index] for index in batch])
        losses = np.array(token_losses(split, tokens), dtype=np.float64)
        _refuse_infinite(losses)
        for index, row in zip(batch, losses, strict=True):
            found[rows.domains[index]].append(row)
        done += len(batch)
        on_progress(Progress(task="measuring", done=done, total=len(rows.rows), unit="sequences"))
    seconds = time.perf_counter() - start
    domains = {name: np.concatenate(parts) for name, parts in found.items()}
    whole = np.concatenate(list(domains.values()))
    _refuse_hopeless(whole)
    return Measured(
        whole=_summed(whole),
        domains={name: _summed(losses) for name, losses in domains.items()},
        seconds=seconds,
        peak_bytes=int(mx.get_peak_memory()),
    )


def token_losses(split: Split, tokens: mx.array) -> mx.array:
    """Return the loss of every token but the first ones, evaluated: [B, T - 1], float32, in nats.

    Args:
        split: a model in its parts.
        tokens: [B, T], with T at least 2.
    """
    targets = tokens[:, 1:]
    hidden = split.body(tokens[:, :-1])  # [B, T - 1, D], or logits where the head is not known
    flat, wanted = hidden.reshape(-1, hidden.shape[-1]), targets.reshape(-1)
    chunk = max(_LEAST_CHUNK, _CHUNK_BYTES // (4 * split.vocabulary))
    parts = []
    for start in range(0, flat.shape[0], chunk):
        logits = split.head(flat[start : start + chunk]).astype(mx.float32)  # [N, V]
        part = nn.losses.cross_entropy(logits, wanted[start : start + chunk], reduction="none")
        mx.eval(part)
        parts.append(part)
    return mx.concatenate(parts).reshape(targets.shape)


def _batches(rows: TokenRows, size: int) -> Iterator[list[int]]:
    """Yield indices of sequences of one length, the longest first."""
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(rows.rows):
        by_length[len(row)].append(index)
    for length in sorted(by_length, reverse=True):
        indices = by_length[length]
        for start in range(0, len(indices), size):
            yield indices[start : start + size]


def _summed(losses: np.ndarray[Any, Any]) -> Losses:
    count = len(losses)
    spread = float(losses.std(ddof=1)) if count > 1 else math.nan
    return Losses(tokens=count, mean=float(losses.mean()), standard_error=spread / math.sqrt(count))


def _refuse_infinite(losses: np.ndarray[Any, Any]) -> None:
    bad = int((~np.isfinite(losses)).sum())
    if bad:
        raise BadModelFiles(
            f"The model's logits are NaN or infinite: of {losses.size} tokens that were computed "
            f"together, {bad} have no finite loss.",
            hint="Its weights are damaged, or too large for the number format they are stored in.",
        )


def _refuse_hopeless(losses: np.ndarray[Any, Any]) -> None:
    if losses.mean() > _MOST_LOSS:
        raise BadModelFiles(
            f"The model's loss is {losses.mean():.3g} nats per token: its perplexity is beyond "
            "what a number can hold.",
            hint="Its weights are damaged.",
        )
