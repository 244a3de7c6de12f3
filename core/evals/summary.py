"""From figures of tokens to those of a table: means, errors, quantiles and paired comparisons.

NumPy in float64. `G` sequences, `N` tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from core.evals.table import Comparison, Ratio, Summary

Floats: TypeAlias = npt.NDArray[np.float64]

DRAWS = 2000
"""Bootstrap draws."""
SEED = 0
"""Of the draws."""
_MOST_LOSS = 700.0  # nats; e to more than that is beyond float64


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What was measured of the tokens of one sequence."""

    domain: str
    """The sequence's."""
    loss: Floats
    """Negative log-likelihoods in nats [N]."""
    kl: Floats
    """KL divergences from the original in nats [N]."""
    same: Floats
    """1 where the likeliest continuation is the original's, else 0 [N]."""


def summarize(figures: Sequence[Figures], original: Sequence[Figures]) -> Summary:
    """Return the summary of a model.

    Args:
        figures: the model's, a sequence each.
        original: the original's of the same sequences.
    """
    losses = [each.loss for each in figures]
    rises = [each.loss - base.loss for each, base in zip(figures, original, strict=True)]
    loss, loss_se = clustered_mean(losses)
    rise, rise_se = clustered_mean(rises)
    kl, kl_se = clustered_mean([each.kl for each in figures])
    agreement, agreement_se = clustered_mean([each.same for each in figures])
    every = np.concatenate([each.kl for each in figures])
    perplexity = math.exp(min(loss, _MOST_LOSS))
    return Summary(
        tokens=every.size,
        sequences=len(figures),
        perplexity=perplexity,
        perplexity_se=None if loss_se is None else perplexity * loss_se,
        loss_increase=rise,
        loss_increase_se=rise_se,
        kl=kl,
        kl_se=kl_se,
        kl_median=float(np.median(every)),
        kl_p99=float(np.quantile(every, 0.99)),
        kl_max=float(every.max()),
        agreement=agreement,
        agreement_se=agreement_se,
    )


def clustered_mean(values: Sequence[Floats]) -> tuple[float, float | None]:
    """Return the mean over all tokens, and its standard error with sequences as clusters.

    With the sum S and the count n of each sequence, the mean is m = sum(S) / N and the squared
    error G / (G - 1) * sum((S - m n)^2) / N^2.

    Args:
        values: those of each sequence's tokens.
    """
    sums = np.array([each.sum() for each in values])
    counts = np.array([each.size for each in values], dtype=np.float64)
    mean, total, groups = sums.sum() / counts.sum(), counts.sum(), len(values)
    if groups < 2:
        return float(mean), None
    square = groups / (groups - 1) * ((sums - mean * counts) ** 2).sum() / total**2
    return float(mean), math.sqrt(square)


def compare(
    name: str, figures: Sequence[Figures], baseline: str, base: Sequence[Figures],
    original: Sequence[Figures],
) -> Comparison:  # fmt: skip
    """Return what a model loses relative to what a baseline loses.

    Args:
        name: the model's.
        figures: the model's, a sequence each.
        baseline: the baseline's name.
        base: its figures of the same sequences.
        original: the original's.
    """
    draws = _draws(len(figures))
    counts = draws @ _counts(figures)
    kl = draws @ _sums([each.kl for each in figures]), draws @ _sums([each.kl for each in base])
    rises = [
        _perplexities(draws, each, counts) - _perplexities(draws, original, counts)
        for each in (figures, base)
    ]
    return Comparison(
        model=name,
        baseline=baseline,
        kl=_ratio(*kl),
        perplexity_increase=_ratio(*rises),
    )


def _draws(groups: int) -> Floats:
    """Return how often each draw has each sequence [1 + DRAWS, G]; the first: each once."""
    random = np.random.Generator(np.random.PCG64(SEED))
    chosen = random.integers(0, groups, size=(DRAWS, groups))
    drawn = np.stack([np.bincount(row, minlength=groups) for row in chosen])
    return np.concatenate([np.ones((1, groups)), drawn]).astype(np.float64)


def _sums(values: Sequence[Floats]) -> Floats:
    return np.array([each.sum() for each in values])


def _counts(figures: Sequence[Figures]) -> Floats:
    return np.array([each.kl.size for each in figures], dtype=np.float64)


def _perplexities(draws: Floats, figures: Sequence[Figures], counts: Floats) -> Floats:
    means = (draws @ _sums([each.loss for each in figures])) / counts
    found: Floats = np.exp(np.minimum(means, _MOST_LOSS))
    return found


def _ratio(above: Floats, below: Floats) -> Ratio:
    """Return the first draw's ratio and the 95% interval of the others.

    A draw in which the baseline loses nothing has no bound: an infinite ratio.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(below > 0, above / below, np.inf)
    value, drawn = ratios[0], np.sort(ratios[1:])
    low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
    return Ratio(value=_known(value), low=_known(low), high=_known(high))


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
