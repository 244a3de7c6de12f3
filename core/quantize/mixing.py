"""Mixed precision from a plan to the forms of its layers: sweep, knapsack, a look at the whole.

The knapsack adds up what single tensors cost. How errors of several act together is left out of
that sum, so its choice is compared with the largest uniform one of the target's size as whole
models on the calibration rows, and the better one is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from core.engine.blocks import Blocks, NotARowError
from core.quantize.allocate import Allocation, Sizes, allocate, better_of, uniform_within
from core.quantize.form import Form
from core.quantize.plan import Plan
from core.quantize.scaling import SHARE
from core.quantize.sensitivity import Watch, measure_sensitivity, measure_together
from core.quantize.sweep_store import Sweep, SweepKey, SweepStore


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """The forms of a model's layers, and why."""

    plan: Plan
    """The plan with them."""
    sweep: Sweep
    """What each form of each layer costs."""
    sizes: Sizes
    """What each form of each layer takes."""
    chosen: Allocation
    """The forms."""
    kl: float
    """Mean KL divergence of the whole model on the calibration rows, nats per token."""
    uniform_kl: float
    """The same of the uniform choice; `kl` is at most this."""


def mix_forms(
    plan: Plan,
    model: Any,
    rows: Sequence[mx.array],
    *,
    key: SweepKey,
    store: SweepStore,
    share: float | None = SHARE,
    watch: Watch | None = None,
) -> Mixed:
    """Return the forms that lose least within a plan's target.

    Args:
        plan: with choices and a target.
        model: the mlx-lm module with floating-point weights.
        rows: calibration tokens, batches [B, T].
        key: what the sweep is kept by.
        store: where it is kept.
        share: time of the sweep as a share of that by full forwards; None: measure every form.
        watch: who follows it.

    Raises:
        UsageProblem: the target is out of reach.
        SweepStopped: `watch.should_stop` said so; the sweep continues the next time.
        OSError: the sweep cannot be kept.
    """
    watch = watch or Watch()
    sizes = sizes_of(plan)
    target = max(plan.target_bpw or 0.0, sizes.reach[0])
    record, notes = store.open(key)
    for note in notes:
        watch.on_note(note)
    blocks = _blocks(model)
    sweep = measure_sensitivity(
        model, blocks, plan.choices, rows, key=key, record=record, share=share, watch=watch
    )
    best = allocate(sweep, sizes, target)
    plain = uniform_within(sizes, target, sweep=sweep)

    def measure(forms: Mapping[str, Form]) -> float:
        return measure_together(model, blocks, forms, rows).kl

    chosen, (ours, uniform) = better_of([best, plain], measure)
    if chosen is plain:
        watch.on_note(
            f"On the calibration text the mixed choice loses {ours:.4g} nats per token and the "
            f"uniform one {uniform:.4g}: the uniform one is taken."
        )
    made = plan.with_forms(chosen.forms)
    return Mixed(
        plan=made,
        sweep=sweep,
        sizes=sizes,
        chosen=chosen,
        kl=min(ours, uniform),
        uniform_kl=uniform,
    )


def sizes_of(plan: Plan) -> Sizes:
    """Return the sizes of a plan's choices and of all else, in bits."""
    options = {
        path: {form: 8 * nbytes for form, nbytes in forms.items()}
        for path, forms in plan.sizes().items()
    }
    fixed = plan.with_forms({path: next(iter(forms)) for path, forms in options.items()})
    chosen = sum(next(iter(forms.values())) for forms in options.values())
    return Sizes(
        options=options,
        kept_bits=8 * fixed.nbytes - chosen,
        weights=max(1, plan.sums.parameters),
    )


def _blocks(model: Any) -> Blocks | None:
    try:
        return Blocks(model)
    except NotARowError:
        return None
