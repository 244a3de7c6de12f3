"""Where the parts of a quantization that have modules of their own are called, each in one place.

Everything is imported when it is needed: a plain uniform run uses none of it.

`B` rows, `T` tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from core.quantize.events import Stage
from core.quantize.open import reopened
from core.quantize.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from core.evals.documents import TokenRows
    from core.evals.table import ProofTable
    from core.progress import Progress
    from core.quantize.calibration import Calibration
    from core.quantize.form import Form
    from core.quantize.mixing import Mixed
    from core.quantize.open import Opened
    from core.quantize.plan import Plan
    from core.quantize.resume import Key
    from core.quantize.source import Source
    from core.quantize.write import Packed

LENGTH = 256
"""Tokens of a calibration row."""
SWEEP_ROWS = 8
"""Calibration rows that sensitivity is measured on, unless `n_calibration` says otherwise."""

_BATCH = 8  # rows computed together
_HELD_SHARE = 0.5  # of the budget: what a float32 copy of the model may take
_SWEEP_ENDS = 0.5  # the sweep's part of the progress of a run


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What mixed precision has chosen, and what it has looked at."""

    plan: Plan
    """The plan with the forms."""
    calibration: Calibration
    """The calibration text."""
    mixed: Mixed
    """The sweep and the knapsack."""


def rotate_source(recipe: Recipe, source: Source) -> tuple[Source, tuple[str, ...]]:
    """Return a source with rotated weights, lazily, and what is worth knowing.

    Raises:
        UsageProblem: its architecture cannot be rotated.
    """
    from core.quantize.rotate.rotating import rotate

    unread = [extra.name for extra in source.extras]
    rotated = rotate(source.model, source.config, seed=recipe.rotation_seed, unread=unread)
    return replace(source, model=rotated.model, config=rotated.config), rotated.notes


def choose_forms(opened: Opened, key: Key) -> Chosen:
    """Return the plan with the forms that mixed precision gives every layer.

    Raises:
        MlxbunError: the calibration text cannot be used, or the sweep cannot be kept.
    """
    from core.quantize.mixing import mix_forms
    from core.quantize.sensitivity import Watch
    from core.quantize.sweep_store import SweepKey, SweepStore

    recipe = opened.recipe
    calibration = _calibration(opened)
    some = _for_sweep(calibration, recipe)
    prepared = f"rotated by seed {recipe.rotation_seed}" if recipe.rotate_weights else ""
    mixed = mix_forms(
        opened.plan,
        opened.source.model,
        batches(some.rows),
        key=SweepKey(
            weights=key.source,
            mix=f"{calibration.digest}, {len(some.rows)} of {LENGTH}",
            reference=_reference(recipe),
            prepared=prepared,
        ),
        store=SweepStore.in_cache(opened.paths.cache),
        watch=Watch(
            on_progress=_sweeping(opened),
            on_note=opened.note,
            should_stop=_stopping(opened),
        ),
    )
    return Chosen(plan=mixed.plan, calibration=calibration, mixed=mixed)


def fitted_packs(opened: Opened, chosen: Chosen) -> Iterator[Packed]:
    """Return the packed layers of a model, fitted to calibration text, block by block."""
    from core.engine.blocks import Blocks, NotARowError
    from core.quantize.walk import fitted

    model = reopened(opened).model
    held = 4 * chosen.plan.sums.parameters <= _HELD_SHARE * opened.budget_bytes
    try:
        blocks = Blocks(model, tried=None if held else 1)
    except NotARowError as why:
        blocks = None
        opened.note(f"Weights are rounded without calibration: {why}.")
    return fitted(
        model,
        blocks,
        chosen.plan.forms,
        batches(chosen.calibration.rows),
        on_note=opened.note,
        on_block=lambda _done, _all: opened.check(),
        reopen=lambda: reopened(opened).model,
    )


def prove(opened: Opened, folders: Mapping[str, Path]) -> ProofTable:
    """Return the table that compares written models with the original.

    Args:
        opened: the run.
        folders: of written models, by what they are called: `mixed`, `uniform`.

    Raises:
        MlxbunError: a model cannot be computed.
    """
    from core.quantize.proof import prove as measured

    return measured(opened, folders)


def write_kv_config(opened: Opened, folder: Path) -> None:
    """Measure which layers' KV may be packed in a written model, and write `kv_config.json`.

    Raises:
        MlxbunError: the calibration text cannot be used.
        OSError: it cannot be written.
    """
    from core.quantize.kv_config import ROWS, SHORTEST, measure_kv_config
    from core.quantize.kv_config import write_kv_config as write

    rows = _calibration(opened).rows
    some = [row for row in rows if len(row) >= SHORTEST][:: max(1, len(rows) // ROWS)]
    found = measure_kv_config(
        _as_served(opened, folder),
        [each for row in some for each in batches([row])],
        on_progress=lambda done, total: _tell_kv(opened, done, total),
        should_stop=_stopping(opened),
    )
    if found is not None:
        for line in found.notes:
            opened.note(line)
        write(folder, found)


def batches(rows: Sequence[Sequence[int]]) -> list[Any]:
    """Return rows as arrays [B, T]: those of one length together, at most eight."""
    import mlx.core as mx

    by_length: dict[int, list[Sequence[int]]] = {}
    for row in rows:
        by_length.setdefault(len(row), []).append(row)
    return [
        mx.array(some[first : first + _BATCH])
        for some in by_length.values()
        for first in range(0, len(some), _BATCH)
    ]


def _calibration(opened: Opened) -> Calibration:
    from core.engine.loader import read_tokenizer
    from core.engine.tokenizer_card import CardShelf
    from core.quantize.calibration import calibration_rows

    recipe = opened.recipe
    shelf = CardShelf(opened.paths.cache / "tokenizers")
    tokenizer = read_tokenizer(opened.model.folder, shelf)
    found = calibration_rows(
        recipe.calibration_mix, tokenizer, n=recipe.n_calibration, length=LENGTH
    )
    for line in found.notes:
        opened.note(line)
    return found


def _for_sweep(calibration: Calibration, recipe: Recipe) -> TokenRows:
    from core.evals.documents import choose_rows

    if recipe.n_calibration or len(calibration.rows) <= SWEEP_ROWS:
        return calibration
    return choose_rows(calibration, SWEEP_ROWS)


def _reference(recipe: Recipe) -> Form | None:
    if recipe.reference_bits is None:
        return None
    return replace(recipe.form, bits=recipe.reference_bits)


def _sweeping(opened: Opened) -> Any:
    def on_progress(progress: Progress, /) -> None:
        share = progress.done / max(1, progress.total or progress.done or 1)
        message = f"{progress.task}: {100 * share:.0f}%"
        opened.on_event(Stage(stage="sweep", progress=_SWEEP_ENDS * share, message=message))

    return on_progress


def _stopping(opened: Opened) -> Callable[[], bool]:
    def should_stop() -> bool:
        opened.check()  # raises where the run is to end
        return False

    return should_stop


def _as_served(opened: Opened, folder: Path) -> Any:
    """Return a written model in memory, in the form in which an engine computes it."""
    import mlx.core as mx
    from mlx_lm.utils import load_model

    from core.engine.loader import unpack_weights

    model, _ = load_model(folder, lazy=True)
    if opened.compute.unpack_weights(4 * opened.plan.sums.parameters, opened.budget_bytes):
        unpack_weights(model)
    elif opened.compute.widen_scales:
        model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    return model


def _tell_kv(opened: Opened, done: int, total: int) -> None:
    message = f"measuring KV widths: {done} of {total}"
    opened.on_event(Stage(stage="kv", progress=0.9, message=message))
