"""Which widths are measured, and what the others are estimated from. Imports no arrays.

The KL divergence that a small change of the weights causes is a quadratic form of the change, so
between fine forms of one tensor it grows as the squared rounding error (`Fact.noise`). Coarse forms
leave that range, and how they do so is similar in all tensors of one kind. So every tensor is
measured in one form near the middle; as many tensors as the time allows also in others, coarsest
first, evenly over the model; the rest is scaled:

- between two measured forms: a power law through both;
- beyond them on the coarse side: the power law of the same kind of tensor (median), else 1;
- on the fine side: power 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from core.quantize.form import Form
from core.quantize.sweep_store import Entry, Fact, Spot

SHARE = 0.22
"""Default time of a sweep as a share of the time by full forwards."""
_LEAST_POWER, _MOST_POWER = 0.5, 2.0


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One tensor to be measured."""

    path: str
    """Path of its module."""
    forms: tuple[Form, ...]
    """Its candidates, coarsest first."""
    block: int | None
    """Index of its layer; None: outside the layers."""
    cost: float
    """Time of one measurement relative to a full forward, 0 to 1."""


def coarsest_first(forms: Iterable[Form]) -> tuple[Form, ...]:
    """Return forms without repetition, those with the fewest bits per weight first."""
    return tuple(sorted(set(forms), key=lambda form: (form.bits_per_weight, form.mode)))


def planned(
    units: Sequence[Unit], *, share: float | None, reference: Form | None = None
) -> dict[str, tuple[Form, ...]]:
    """Return for each tensor the forms to measure.

    Args:
        units: the tensors.
        share: time as a share of that by full forwards; None: measure every form. At least one
            form of each tensor is measured, whatever that takes.
        reference: the baseline's form, whose KL is zero by definition.
    """
    chosen = {unit.path: [_anchor(unit, reference)] for unit in units}
    if share is None:
        return {unit.path: tuple(f for f in unit.forms if f != reference) for unit in units}
    left = share * sum(len(unit.forms) for unit in units)
    left -= sum(unit.cost for unit in units)
    for rank in range(max((len(unit.forms) for unit in units), default=0)):
        able = [u for u in units if len(u.forms) > rank and u.forms[rank] != reference]
        able = [u for u in able if u.forms[rank] not in chosen[u.path]]
        taken = _evenly(able, left)
        for unit in taken:
            chosen[unit.path].append(unit.forms[rank])
            left -= unit.cost
        if len(taken) < len(able):
            break
    return {path: tuple(forms) for path, forms in chosen.items()}


def estimated(
    units: Sequence[Unit], facts: Mapping[Spot, Fact], *, reference: Form | None = None
) -> tuple[Entry, ...]:
    """Return an entry for each form of each tensor, measured or scaled.

    Args:
        units: the tensors, each measured in at least one form.
        facts: `noise` of every form, `kl` of the measured ones.
        reference: the baseline's form; None: original weights.
    """
    powers = _powers(units, facts) if reference is None else {}
    found = []
    for unit in units:
        own = {form: facts[unit.path, form] for form in unit.forms}
        for form, fact in own.items():
            kl = fact.kl
            if kl is None:
                kl = _scaled(fact.noise, own, powers.get(_kind(unit.path), powers.get("", 1.0)))
                if reference is not None:
                    kl = _shifted(fact.noise, own, facts[unit.path, reference].noise)
            found.append(
                Entry(
                    path=unit.path,
                    form=form,
                    kl=kl,
                    error=fact.error,
                    measured=fact.kl is not None,
                    noise=fact.noise,
                )
            )
    return tuple(found)


def _anchor(unit: Unit, reference: Form | None) -> Form:
    """Return the form that is measured first: the second coarsest, where there are three."""
    forms = [form for form in unit.forms if form != reference] or list(unit.forms)
    return forms[1] if len(forms) > 2 else forms[0]


def _evenly(units: Sequence[Unit], budget: float) -> list[Unit]:
    """Return as many units as a budget pays for, spread over the layers."""
    blocks = sorted({unit.block for unit in units if unit.block is not None})
    for stride in range(1, len(blocks) + 1):
        kept = set(blocks[stride // 2 :: stride])
        taken = [unit for unit in units if unit.block is None or unit.block in kept]
        if sum(unit.cost for unit in taken) <= budget:
            return taken
    return []


def _powers(units: Sequence[Unit], facts: Mapping[Spot, Fact]) -> dict[str, float]:
    """Return by kind of tensor how KL grows with noise towards coarse forms; "": all kinds."""
    found: dict[str, list[float]] = {"": []}
    for unit in units:
        known = [facts[unit.path, form] for form in unit.forms]
        slope = _slope([fact for fact in known if fact.kl is not None][:2])
        if slope is not None:
            found[""].append(slope)
            found.setdefault(_kind(unit.path), []).append(slope)
    return {kind: median(slopes) for kind, slopes in found.items() if slopes}


def _slope(pair: Sequence[Fact]) -> float | None:
    """Return the power law through two facts; None: there is none."""
    if len(pair) < 2:
        return None
    (first, second) = pair
    above = min(first.noise, second.noise, first.kl or 0.0, second.kl or 0.0)
    if above <= 0 or first.noise == second.noise:
        return None
    slope = math.log(first.kl / second.kl) / math.log(first.noise / second.noise)  # type: ignore[operator]
    return min(_MOST_POWER, max(_LEAST_POWER, slope))


def _scaled(noise: float, own: Mapping[Form, Fact], power: float) -> float:
    """Return the KL at a noise from the measured forms of the same tensor."""
    known = sorted((f for f in own.values() if f.kl is not None), key=lambda fact: fact.noise)
    finer = [fact for fact in known if fact.noise <= noise]
    coarser = [fact for fact in known if fact.noise > noise]
    if finer and coarser:
        slope = _slope([coarser[0], finer[-1]])
        power = 1.0 if slope is None else slope
        nearest = finer[-1]
    elif finer:
        nearest = finer[-1]
    else:
        nearest, power = coarser[0], 1.0
    if nearest.noise <= 0 or noise <= 0:
        return (nearest.kl or 0.0) if noise >= nearest.noise else 0.0
    return (nearest.kl or 0.0) * (noise / nearest.noise) ** power


def _shifted(noise: float, own: Mapping[Form, Fact], at_reference: float) -> float:
    """Return the KL above the baseline's: linear in the noise, zero at the baseline's form."""
    known = [fact for fact in own.values() if fact.kl is not None]
    apart = [fact for fact in known if fact.noise != at_reference]
    if not apart:
        return 0.0
    nearest = min(apart, key=lambda fact: abs(fact.noise - noise))
    return (nearest.kl or 0.0) * (noise - at_reference) / (nearest.noise - at_reference)


def _kind(path: str) -> str:
    """Return what tensors of several layers have in common: their names without numbers."""
    return ".".join(part for part in path.split(".") if not part.isdigit())
