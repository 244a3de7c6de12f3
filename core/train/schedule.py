"""The learning rate of each step. Pure Python.

A linear warm-up from learning_rate / warmup to learning_rate, then constant, or a cosine down to 0
at the last step (Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts).
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
    done = (step - 1 - warmup) / max(1, steps - 1 - warmup)
    return peak * (1 + math.cos(math.pi * done)) / 2
