"""What one sweep says about every size: the least KL divergence at each. Imports no MLX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.quantize.allocate import Allocation, Sizes, allocate, uniform
from core.quantize.form import Form
from core.quantize.sweep_store import Sweep

POINTS = 24
"""Sizes on a frontier by default."""


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """Sizes against sums of KL divergences."""

    mixed: tuple[Allocation, ...]
    """The best choice at each of several sizes, smallest first."""
    uniform: Mapping[Form, Allocation]
    """One form for all tensors that may have it."""


def trace_frontier(
    sweep: Sweep, sizes: Sizes, *, targets: Sequence[float] | None = None
) -> Frontier:
    """Return the frontier of a sweep.

    Args:
        sweep: what each form of each tensor costs.
        sizes: what each form takes.
        targets: bits per weight; None: `POINTS` sizes over the whole range.

    Raises:
        UsageProblem: a target is out of reach.
    """
    if targets is None:
        low, high = sizes.reach
        targets = [low + (high - low) * point / (POINTS - 1) for point in range(POINTS)]
    mixed = [allocate(sweep, sizes, target) for target in sorted(targets)]
    forms = sorted(
        {form for options in sizes.options.values() if len(options) > 1 for form in options},
        key=lambda form: form.bits_per_weight,
    )
    return Frontier(
        mixed=tuple(mixed), uniform={form: uniform(sizes, form, sweep=sweep) for form in forms}
    )
