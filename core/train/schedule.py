"""The learning rate of each step. Pure Python.

A linear warm-up from learning_rate / warmup to learning_rate, then constant, or a cosine that would
reach 0 one step after the last, so that every step learns something (Loshchilov and Hutter 2017,
arXiv:1608.03983, equation 5 without restarts: at step t of T the cosine of t / T, t from 0).
"""

from __future__ import annotations

import math


def learning_rate(step: int, *, peak: float, steps: int, warmup: int, schedule: str) -> float:
    """Return the learning rate of a step.

    Args:
        step: from 1 to `steps`.
        peak: the rate after the warm-up.
        steps: of the whole training.
        warmup: steps in which the rate rises.
        schedule: `constant` or `cosine`.
    """
    if step <= warmup:
        return peak * step / warmup
    if schedule == "constant":
        return peak
    done = (step - 1 - warmup) / (steps - warmup)
    return peak * (1 + math.cos(math.pi * done)) / 2
