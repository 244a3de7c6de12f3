"""What `core.evals` measures, computed another way: NumPy, float64, a token at a time."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
import numpy as np

from tests.core.evals.models import Text


def log_softmax(logits: Any) -> Any:
    """Return log-probabilities of one token's logits [V]."""
    wide = np.asarray(logits, dtype=np.float64)
    return wide - wide.max() - math.log(np.exp(wide - wide.max()).sum())


def figures(original: Any, model: Any, rows: list[list[int]]) -> list[list[tuple[float, ...]]]:
    """Return loss, KL, agreement and the original's loss of every token, by row."""
    found = []
    for row in rows:
        inputs = mx.array([row[:-1]])
        first, second = np.array(original(inputs))[0], np.array(model(inputs))[0]
        tokens: list[tuple[float, ...]] = []
        for p, q, target in zip(first, second, row[1:], strict=True):
            log_p, log_q = log_softmax(p), log_softmax(q)
            kl = sum(math.exp(a) * (a - b) for a, b in zip(log_p, log_q, strict=True))
            same = float(np.argmax(p) == np.argmax(q))
            tokens.append((-log_q[target], kl, same, -log_p[target]))
        found.append(tokens)
    return found


def clustered(values: list[list[float]]) -> tuple[float, float]:
    """Return a mean over tokens and its standard error, by the jackknife-like textbook formula."""
    count = sum(map(len, values))
    mean = sum(map(sum, values)) / count
    residuals = [sum(value - mean for value in row) for row in values]
    groups = len(values)
    square = groups / (groups - 1) * sum(each**2 for each in residuals) / count**2
    return mean, math.sqrt(square)


def column(rows: list[list[tuple[float, ...]]], index: int) -> list[list[float]]:
    """Return one figure of every token, by row."""
    return [[token[index] for token in row] for row in rows]


def of_domain(text: Text, rows: list[Any], domain: str) -> list[Any]:
    """Return the rows of a domain."""
    return [row for row, name in zip(rows, text.domains, strict=True) if name == domain]
