"""Mixed precision from a plan to the forms of its layers: sweep, knapsack, a look at the whole.

The knapsack adds up what single tensors cost. How errors of several act together is left out of
that sum, so its choice is compared with the largest uniform one of the target's size as whole
models on the calibration rows, and the better one is taken. A sweep is many forwards: its rows are
fewer and shorter than those that weights are rounded with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from core.engine.blocks import Blocks, NotARowError
from core.evals.streams import Watch
from core.quantize.allocate import (
    Allocation,
    Sizes,
    allocate,
    as_allocation,
    better_of,
    uniform_within,
)
from core.quantize.events import Stage
from core.quantize.form import Form
from core.quantize.plan import Choice, Plan
from core.quantize.scaling import SHARE
from core.quantize.sensitivity import measure_sensitivity, measure_together
from core.quantize.sweep_store import Sweep, SweepKey, SweepStore, read_form

if TYPE_CHECKING:
    from core.progress import Progress
    from core.quantize.open import Opened
    from core.quantize.recipe import Recipe

_ROWS, _LENGTH = 8, 128
"""Rows of a sweep, unless the recipe says how many, and tokens of a row."""
SWEEP_ENDS = 0.5
"""How far a run is when its sweep ends, 0 to 1."""


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

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object, as it travels with a model."""
        found = self.sweep.as_json()
        entries = []
        for value, entry in zip(found["entries"], self.sweep.entries, strict=True):
            size = self.sizes.options[entry.path].get(entry.form)
            entries.append({**value, "size": size})
        forms = {path: form.as_config() for path, form in self.chosen.forms.items()}
        return found | {
            "entries": entries,
            "kept_bits": self.sizes.kept_bits,
            "weights": self.sizes.weights,
            "chosen": forms,
            "kl": self.kl,
            "uniform_kl": self.uniform_kl,
        }


def read_mixed(value: Mapping[str, Any]) -> tuple[Sweep, Sizes, Allocation]:
    """Read what `Mixed.as_json` returned. Foreign input: models come from anywhere.

    Raises:
        ValueError: it is something else.
    """
    sweep = Sweep.from_json(value)
    options: dict[str, dict[Form, int]] = {}
    try:
        for entry, plain in zip(sweep.entries, value["entries"], strict=True):
            if plain["size"] is not None:
                options.setdefault(entry.path, {})[entry.form] = max(1, int(plain["size"]))
        sizes = Sizes(
            options=options,
            kept_bits=int(value["kept_bits"]),
            weights=max(1, int(value["weights"])),
        )
        forms = {str(path): read_form(form) for path, form in value["chosen"].items()}
        return sweep, sizes, as_allocation(forms, sizes, sweep)
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"not the record of a choice: {problem!r}") from problem


def choose(opened: Opened) -> Plan:
    """Return the plan of a run with forms that meet its target.

    Raises:
        UsageProblem: the target is out of reach, or the calibration text cannot be used.
        Cancelled: the run is to end; the sweep continues the next time.
    """
    from core.engine.loader import read_tokenizer
    from core.engine.tokenizer_card import CardShelf
    from core.quantize.calibration import calibration_rows
    from core.quantize.open import reopened
    from core.quantize.resume import key_of

    recipe, folder = opened.recipe, opened.model.folder
    tokenizer = read_tokenizer(folder, CardShelf(opened.paths.cache / "tokenizers"))
    count, bits = recipe.n_calibration or _ROWS, recipe.reference_bits
    text = calibration_rows(recipe.calibration_mix, tokenizer, n=count, length=_LENGTH)
    key = SweepKey(
        weights=key_of(recipe, folder).source,
        mix=f"{text.digest} {count} x {_LENGTH}",
        reference=Form(bits=bits, group_size=recipe.form.group_size) if bits else None,
        prepared=_prepared(recipe),
    )
    mixed = mix_forms(
        opened.plan,
        reopened(opened).model,  # its arrays go with it when the sweep is done
        batches(text.rows),
        key=key,
        store=SweepStore.in_cache(opened.paths.cache),
        watch=_watch(opened),
    )
    choice = Choice(sweep=mixed.as_json(), calibration=text.digest)
    return replace(mixed.plan, choice=choice)


def _prepared(recipe: Recipe) -> str:
    """Return what is done to the weights before a sweep, in words; empty: nothing."""
    if not recipe.rotate_weights:
        return ""
    return f"{recipe.rotation_form} rotated by seed {recipe.rotation_seed}"


def batches(rows: Sequence[Sequence[int]]) -> list[mx.array]:
    """Return rows of the same length together, [B, T] each."""
    found: dict[int, list[Sequence[int]]] = {}
    for row in rows:
        found.setdefault(len(row), []).append(row)
    return [mx.array(together) for together in found.values()]


def _watch(opened: Opened) -> Watch:
    def on_progress(report: Progress) -> None:
        share = report.done / max(1, report.total or 1)
        message = f"{report.task}, {share:.0%} of the sweep"
        progress = SWEEP_ENDS * min(1.0, share)
        opened.on_event(Stage(stage="sweep", progress=progress, message=message))

    def should_stop() -> bool:
        opened.check()  # raises where the run is to end
        threads = opened.compute.threads
        if threads and (count := threads.wanted()):
            threads.apply(count)
        return False

    return Watch(on_progress=on_progress, on_note=opened.note, should_stop=should_stop)


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
        StoppedError: `watch.should_stop` said so; the sweep continues the next time.
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
