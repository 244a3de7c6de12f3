"""Calls of the optional parts of a quantization, each in one place.

They are imported when needed: a plain uniform run uses none of them.

`B` rows, `T` tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.quantize.events import Stage
from core.quantize.open import reopened
from core.quantize.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from core.evals.table import ProofTable
    from core.quantize.calibration import Calibration
    from core.quantize.open import Opened
    from core.quantize.plan import Plan
    from core.quantize.rotate.rotating import Rotated
    from core.quantize.source import Source
    from core.quantize.write import Packed

LENGTH = 256
"""Tokens of a calibration row that weights are fitted to."""

_HELD_SHARE = 0.5  # of the budget: what a float32 copy of the model may take


def rotate_source(recipe: Recipe, source: Source, *, values: bool | None = None) -> Rotated:
    """Return a source's model with rotated weights, lazily.

    Args:
        recipe: what was chosen.
        source: the model.
        values: `Rotated.values` of an earlier call for the same model, which skips the trial; None:
            try.

    Raises:
        UsageProblem: its architecture cannot be rotated.
    """
    from core.quantize.rotate.rotating import rotate

    return rotate(
        source.model,
        source.config,
        seed=recipe.rotation_seed,
        small=recipe.rotation_form == "values",
        unread=[extra.name for extra in source.extras],
        values=values,
    )


def choose_forms(opened: Opened) -> Plan:
    """Return the plan with the forms that mixed precision gives every layer.

    Raises:
        UsageProblem: the target is out of reach, or the calibration text cannot be used.
        Cancelled: the run is to end.
    """
    from core.quantize.mixing import choose

    return choose(opened)


def fitted_packs(opened: Opened, plan: Plan) -> Iterator[Packed]:
    """Return the packed layers of a model, fitted to calibration text, block by block.

    Raises:
        MlxbunError: the calibration text cannot be used.
    """
    from core.engine.blocks import Blocks, NotARowError
    from core.quantize.mixing import batches
    from core.quantize.walk import fitted

    model = reopened(opened).model
    held = 4 * plan.sums.parameters <= _HELD_SHARE * opened.budget_bytes
    try:
        blocks = Blocks(model, tried=None if held else 1)
    except NotARowError as why:
        blocks = None
        opened.note(f"Weights are rounded without calibration: {why}.")
    return fitted(
        model,
        blocks,
        plan.forms,
        batches(_calibration(opened).rows),
        on_note=opened.note,
        on_block=lambda _done, _all: opened.check(),
        reopen=lambda: reopened(opened).model,
    )


def prove(opened: Opened, folders: Mapping[str, Path]) -> ProofTable:
    """Return the table that compares written models with the original.

    Args:
        opened: the run.
        folders: of written models, by name: `mixed`, `uniform`.

    Raises:
        MlxbunError: a model cannot be computed.
    """
    from core.quantize.proof import prove as measured

    return measured(opened, folders)


def write_kv_config(opened: Opened, folder: Path) -> None:
    """Measure which KV caches of a written model tolerate few bits, and write `kv_config.json`.

    Raises:
        MlxbunError: the calibration text cannot be used.
        OSError: it cannot be written.
    """
    from core.quantize.kv_config import ROWS, SHORTEST, measure_kv_config
    from core.quantize.kv_config import write_kv_config as write
    from core.quantize.mixing import batches

    rows = _calibration(opened).rows
    some = [row for row in rows if len(row) >= SHORTEST][:: max(1, len(rows) // ROWS)]
    found = measure_kv_config(
        _as_served(opened, folder),
        [each for row in some for each in batches([row])],
        on_progress=lambda done, total: _report_kv(opened, done, total),
        should_stop=stop_check(opened),
    )
    if found is not None:
        for line in found.notes:
            opened.note(line)
        write(folder, found)


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


def stop_check(opened: Opened) -> Callable[[], bool]:
    """Return a `should_stop` that raises `Cancelled` when the run is to end."""

    def should_stop() -> bool:
        opened.check()
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


def _report_kv(opened: Opened, done: int, total: int) -> None:
    from core.quantize.proof import PROVEN

    message = f"measuring KV widths: {done} of {total}"
    progress = PROVEN + (1 - PROVEN) * done / max(1, total)
    opened.on_event(Stage(stage="kv", progress=progress, message=message))
