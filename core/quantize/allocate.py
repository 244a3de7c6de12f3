"""Which form each tensor gets, so that a model of a given size loses least. Imports no MLX.

A multiple-choice knapsack: the sum of the tensors' KL divergences (`Sweep`) is made least while the
whole model keeps within its bits. Solved by dynamic programming over a grid of sizes. The sizes of
most models are multiples of one number, and then the result is exact; else sizes are rounded up to
a grid, so that the limit holds, and the gap to a lower bound (the Lagrangian dual) is reported.

Measurements are noisy: a wider form counts as at most what a narrower one of the same tensor costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from core.errors import UsageProblem
from core.quantize.form import Form
from core.quantize.sweep_store import Sweep

_MOST_STEPS = 120_000
"""Sizes that the grid has at most."""
_HALVINGS = 60


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of a whole model."""

    options: Mapping[str, Mapping[Form, int]]
    """For each tensor the forms it may take, each with its size in bits, scales included. A tensor
    with a least width has no narrower form here; one that is fixed has a single form."""
    kept_bits: int
    """Bits of everything else: norms, and tensors that stay as they are."""
    weights: int
    """Weights of the whole model, as mlx_lm's `compute_bits_per_weight` counts them."""

    def bits_of(self, forms: Mapping[str, Form]) -> int:
        """Return the bits of the whole model."""
        return self.kept_bits + sum(self.options[path][form] for path, form in forms.items())

    def bits_at(self, bits_per_weight: float) -> int:
        """Return the most bits that the whole model may have at a number of bits per weight.

        A quotient of some model's bits gives these bits again, though it was rounded.
        """
        found = bits_per_weight * self.weights
        return math.floor(found + max(1e-6, 2 * math.ulp(found)))

    @property
    def reach(self) -> tuple[float, float]:
        """Least and most bits per weight."""
        least = sum(min(sizes.values()) for sizes in self.options.values())
        most = sum(max(sizes.values()) for sizes in self.options.values())
        return (self.kept_bits + least) / self.weights, (self.kept_bits + most) / self.weights


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """A form for each tensor."""

    forms: Mapping[str, Form]
    """By path."""
    bits: int
    """Of the whole model."""
    bits_per_weight: float
    """Of the whole model."""
    kl: float
    """Sum of the tensors' KL divergences, nats per token."""
    gap: float
    """By how much `kl` may at most exceed the best possible sum; 0: it is the best."""


@dataclass(frozen=True, kw_only=True)
class _Item:
    """One tensor's choices, smallest first, each better than the one before it."""

    path: str
    forms: tuple[Form, ...]
    sizes: tuple[int, ...]
    losses: tuple[float, ...]


def allocate(sweep: Sweep, sizes: Sizes, target_bpw: float) -> Allocation:
    """Return the forms with the least sum of KL divergences within a size.

    Tensors with forms that the sweep does not know, and tensors that the calibration rows did not
    use, are chosen by size alone: the widest form up to the target, else the narrowest.

    Args:
        sweep: what each form costs.
        sizes: what each form takes.
        target_bpw: bits per weight of the whole model, at most.

    Raises:
        UsageProblem: the target is out of reach; the hint names the range.
    """
    check_target(sizes, target_bpw)
    limit = sizes.bits_at(target_bpw) - sizes.kept_bits
    curves = sweep.curves
    items = [_item(path, sizes, curves.get(path, {}), target_bpw) for path in sizes.options]
    least = sum(item.sizes[0] for item in items)
    if least > limit:  # tensors without a measurement took too much
        items = [_item(path, sizes, curves.get(path, {}), 0.0) for path in sizes.options]
    picked = _solve(items, limit)
    forms = {item.path: item.forms[pick] for item, pick in zip(items, picked, strict=True)}
    kl = math.fsum(item.losses[pick] for item, pick in zip(items, picked, strict=True))
    return Allocation(
        forms=forms,
        bits=sizes.bits_of(forms),
        bits_per_weight=sizes.bits_of(forms) / sizes.weights,
        kl=kl,
        gap=max(0.0, kl - _lower_bound(items, limit)) if _unit(items, limit)[1] else 0.0,
    )


def check_target(sizes: Sizes, target_bpw: float) -> None:
    """Refuse a target that no choice of forms meets.

    Raises:
        UsageProblem: it is out of reach; the hint names the range.
    """
    low, high = sizes.reach
    if sizes.bits_at(target_bpw) < sizes.bits_at(low) or target_bpw > high + 0.005:
        raise UsageProblem(
            f"A target of {target_bpw:g} bits per weight is out of reach for this model.",
            hint=f"Reachable with these candidates: {math.ceil(100 * low) / 100:.2f} to "
            f"{math.floor(100 * high) / 100:.2f}.",
        )


def uniform_within(sizes: Sizes, target_bpw: float, *, sweep: Sweep | None = None) -> Allocation:
    """Return the largest uniform allocation within a size, or the smallest possible allocation.

    Args:
        sizes: what each form takes.
        target_bpw: bits per weight of the whole model, at most.
        sweep: for the sum of KL divergences; None: it is nan.
    """
    every = {form for options in sizes.options.values() for form in options}
    found = [uniform(sizes, form, sweep=sweep) for form in every]
    fitting = [each for each in found if each.bits <= sizes.bits_at(target_bpw)]
    if not fitting:
        smallest = {path: min(opts, key=opts.__getitem__) for path, opts in sizes.options.items()}
        return as_allocation(smallest, sizes, sweep)
    return max(fitting, key=lambda each: each.bits)


def uniform(sizes: Sizes, form: Form, *, sweep: Sweep | None = None) -> Allocation:
    """Return the allocation of one form to all tensors that may have it.

    Others have their narrowest form that is wider, else their widest.
    """
    forms = {}
    for path, options in sizes.options.items():
        wider = [f for f in options if f.bits_per_weight >= form.bits_per_weight]
        chosen = (
            min(wider, key=options.__getitem__) if wider else max(options, key=options.__getitem__)
        )
        forms[path] = form if form in options else chosen
    return as_allocation(forms, sizes, sweep)


def better_of(
    allocations: Sequence[Allocation], measure: Callable[[Mapping[str, Form]], float]
) -> tuple[Allocation, list[float]]:
    """Return the allocation with the least measured loss, and the loss of each.

    The sum of single KL divergences leaves out how errors of several tensors act together, so the
    candidates are compared as whole models. The first of equals wins.

    Args:
        allocations: at least one.
        measure: returns the loss of a model with these forms.
    """
    losses = [measure(each.forms) for each in allocations]
    return allocations[losses.index(min(losses))], losses


def as_allocation(forms: Mapping[str, Form], sizes: Sizes, sweep: Sweep | None) -> Allocation:
    """Return forms as an allocation; without a sweep its `kl` is nan.

    Raises:
        KeyError: a tensor or form has no size.
    """
    bits = sizes.bits_of(forms)
    kl = math.nan
    if sweep is not None:
        curves = sweep.curves
        kl = math.fsum(
            _repaired(curves.get(path, {})).get(form, 0.0) for path, form in forms.items()
        )
    return Allocation(forms=forms, bits=bits, bits_per_weight=bits / sizes.weights, kl=kl, gap=kl)


def _item(path: str, sizes: Sizes, curve: Mapping[Form, float], target: float) -> _Item:
    options = sizes.options[path]
    known = _repaired({form: curve[form] for form in options if form in curve})
    if len(known) < len(options) or not any(known.values()):
        form = _by_size(options, target)
        return _Item(
            path=path, forms=(form,), sizes=(options[form],), losses=(curve.get(form, 0.0),)
        )
    kept: list[Form] = []
    for form in sorted(known, key=lambda form: (options[form], known[form])):
        if not kept or known[form] < known[kept[-1]]:
            kept.append(form)
    return _Item(
        path=path,
        forms=tuple(kept),
        sizes=tuple(options[form] for form in kept),
        losses=tuple(known[form] for form in kept),
    )


def _repaired(curve: Mapping[Form, float]) -> dict[Form, float]:
    """Return a curve in which no wider form costs more than a narrower one."""
    found: dict[Form, float] = {}
    best = math.inf
    for form in sorted(curve, key=lambda form: form.bits_per_weight):
        best = min(best, curve[form])
        found[form] = best
    return found


def _by_size(options: Mapping[Form, int], target: float) -> Form:
    within = [form for form in options if form.bits_per_weight <= target + 1e-9]
    if within:
        return max(within, key=options.__getitem__)
    return min(options, key=options.__getitem__)


def _solve(items: Sequence[_Item], limit: int) -> list[int]:
    """Return the index of each item's choice."""
    unit, _ = _unit(items, limit)
    room = (limit - sum(item.sizes[0] for item in items)) // unit
    steps = [[-(-(size - item.sizes[0]) // unit) for size in item.sizes] for item in items]
    best = np.zeros(room + 1)
    taken = np.zeros((len(items), room + 1), dtype=np.uint8)
    for row, (item, costs) in enumerate(zip(items, steps, strict=True)):
        best, taken[row] = _with_item(best, costs, item.losses)
    picked = []
    at = room
    for row in range(len(items) - 1, -1, -1):
        picked.append(int(taken[row, at]))
        at -= steps[row][picked[-1]]
    return _fill(items, picked[::-1], limit)


def _with_item(
    best: npt.NDArray[np.float64], costs: Sequence[int], losses: Sequence[float]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint8]]:
    """Return the least loss within each room with one more item, and the item's choice."""
    found = best + losses[0]
    taken = np.zeros(len(best), dtype=np.uint8)
    for choice, (cost, loss) in enumerate(zip(costs, losses, strict=True)):
        if choice and cost < len(best):
            other = best[: len(best) - cost] + loss
            better = other < found[cost:]
            found[cost:][better] = other[better]
            taken[cost:][better] = choice
    return found, taken


def _fill(items: Sequence[_Item], picked: list[int], limit: int) -> list[int]:
    """Use what the grid's rounding left: widen where that helps most per bit while it fits."""
    left = limit - sum(item.sizes[pick] for item, pick in zip(items, picked, strict=True))
    while True:
        steps = [
            (
                (item.losses[pick] - item.losses[wider]) / (item.sizes[wider] - item.sizes[pick]),
                row,
                wider,
            )
            for row, (item, pick) in enumerate(zip(items, picked, strict=True))
            for wider in range(pick + 1, len(item.sizes))
            if item.sizes[wider] - item.sizes[pick] <= left
        ]
        if not steps:
            return picked
        _, row, wider = max(steps)
        left -= items[row].sizes[wider] - items[row].sizes[picked[row]]
        picked[row] = wider


def _unit(items: Sequence[_Item], limit: int) -> tuple[int, bool]:
    """Return the step of the grid in bits, and whether sizes had to be rounded."""
    steps = [size - item.sizes[0] for item in items for size in item.sizes[1:]]
    exact = math.gcd(*steps) or 1
    room = limit - sum(item.sizes[0] for item in items)
    coarse = -(-room // _MOST_STEPS)
    return (exact, False) if exact >= coarse else (coarse, True)


def _lower_bound(items: Sequence[_Item], limit: int) -> float:
    """Return the Lagrangian dual: no choice within the limit has a smaller sum."""
    low, high = 0.0, 1.0
    while _relaxed(items, limit, high)[1] > 0 and high < 1e12:
        high *= 4
    best = _relaxed(items, limit, 0.0)[0]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        value, over = _relaxed(items, limit, middle)
        best = max(best, value)
        low, high = (middle, high) if over > 0 else (low, middle)
    return best


def _relaxed(items: Sequence[_Item], limit: int, price: float) -> tuple[float, float]:
    """Return the dual's value at a price per average item size, and its slope."""
    scale = max(1.0, limit / len(items)) if items else 1.0
    total, used = 0.0, 0.0
    for item in items:
        costs = [
            (loss + price * size / scale, size)
            for loss, size in zip(item.losses, item.sizes, strict=True)
        ]
        cost, size = min(costs)
        total += cost
        used += size
    return total - price * limit / scale, used - limit
