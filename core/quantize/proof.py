"""The proof of a quantization: the written folders against their original, on held-out text.

What is measured is read from the files that were written, before anything is published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import ProofFailed
from core.evals.record import Record, Source, write_record
from core.evals.run import LENGTH
from core.evals.table import Entry, ProofTable, require_limits
from core.figures import model_revision
from core.quantize.events import Stage
from core.quantize.parts import stop_check
from core.quantize.recipe import TABLE

if TYPE_CHECKING:
    from core.evals.subjects import Subject
    from core.progress import Progress
    from core.quantize.open import Opened
    from core.quantize.plan import Plan

MIXED, UNIFORM = "mixed", "uniform"
"""Names of the models that a run writes."""
_BEGINS = 0.9  # where the proof begins in the progress of a run
PROVEN = 0.95
"""Where it ends when KV widths are measured afterwards; else it ends the run."""


def prove(opened: Opened, folders: Mapping[str, Path]) -> ProofTable:
    """Return the table that compares written models with the original.

    Args:
        opened: the run.
        folders: of the written models, by name: `MIXED`, `UNIFORM`.

    Raises:
        MlxbunError: a model cannot be computed.
        Cancelled: the run is to end.
    """
    from core.engine.loader import read_tokenizer
    from core.engine.tokenizer_card import CardShelf
    from core.evals.heldout import heldout_rows
    from core.evals.measure import measure
    from core.evals.streams import How, Watch
    from core.evals.subjects import folder_subject

    source = opened.model.folder
    tokenizer = read_tokenizer(source, CardShelf(opened.paths.cache / "tokenizers"))
    base = folder_subject(source, name=opened.model.model_id, role="original")
    # The baseline first: the last line is the one that a reader looks for.
    candidates = [_subject(folders[name], name) for name in (UNIFORM, MIXED) if name in folders]
    how = How(budget_bytes=opened.budget_bytes, threads=opened.compute.threads)
    watch = Watch(
        on_note=opened.note,
        on_progress=_Telling(opened, models=1 + len(candidates)),
        should_stop=stop_check(opened),
    )
    text = heldout_rows(tokenizer, length=LENGTH)
    for line in text.notes:
        opened.note(line)
    highest = max(tokenizer.vocabulary().tokens.values(), default=0)
    return measure(base, candidates, text, how=how, watch=watch, vocabulary=highest + 1)


def is_worse(table: ProofTable) -> bool:
    """Return whether a mixed model is not better than the uniform one beyond the 95% bound."""
    return table.is_better is False


def hold_to_limits(opened: Opened, table: ProofTable, name: str) -> None:
    """Check the model that is to be published against the limits of the recipe.

    Args:
        opened: the run.
        table: its proof.
        name: what the run calls the model.

    Raises:
        ProofFailed: it misses one; the error carries the table.
    """
    recipe = opened.recipe
    entry = _entry(table, name)
    try:
        require_limits(entry, min_agreement=recipe.min_agreement, max_kl=recipe.max_kl)
    except ProofFailed as missed:
        missed.table = table
        raise


def leave_proof(
    folder: Path,
    opened: Opened,
    table: ProofTable | None,
    *,
    baseline: Plan | None = None,
    calibration: str | None = None,
    sweep: Mapping[str, Any] | None = None,
) -> None:
    """Write the record that `mlxbun eval --verify` reads: `quantization.json`.

    Args:
        folder: the result's.
        opened: the run.
        table: the proof, as `published` returns it; None: there is none.
        baseline: forms of the uniform model that a mixed one was compared with; None: there is
            none, or it cannot be made from the source by plain rounding (it was rotated).
        calibration: digest of the calibration text; None: none was used.
        sweep: sensitivities that the forms were chosen by; None: there was no choice.

    Raises:
        OSError: it cannot be written.
    """
    recipe = {name: v for name, v in TABLE.as_json(opened.recipe).items() if name not in _UNTOLD}
    forms = baseline.forms if baseline is not None and not opened.recipe.rotate_weights else {}
    record = Record(
        source=Source(
            model_id=opened.model.model_id.partition("@")[0],
            revision=model_revision(opened.model.folder),
        ),
        recipe=recipe,
        calibration=calibration,
        table=table,
        baseline={path: form.as_config() for path, form in forms.items()},
        sweep=sweep,
        notes=tuple(opened.notes),
        versions={name: version(name) for name in ("mlxbun", "mlx", "mlx-lm")},
    )
    write_record(folder, record)


def published(table: ProofTable, *, uniform_instead: bool) -> ProofTable:
    """Return a table about the model that is published.

    If that is the uniform one, the mixed one stays in the table with the role `other`.

    Args:
        table: the proof.
        uniform_instead: whether the uniform model is published, because ours was not better.
    """
    if not uniform_instead:
        return table
    others = [replace(each, role="other") if each.name == MIXED else each for each in table.entries]
    return replace(table, entries=tuple(others))


# Paths of this machine.
_UNTOLD = ("model_id", "output")


class _Telling:
    """Reports the progress of measurements as part of the run."""

    def __init__(self, opened: Opened, *, models: int) -> None:
        self._opened = opened
        self._models = models
        self._tasks: list[str] = []

    def __call__(self, report: Progress, /) -> None:
        """Take one report."""
        if report.task not in self._tasks:
            self._tasks.append(report.task)
        part = report.done / max(1, report.total or 1)
        share = (len(self._tasks) - 1 + part) / self._models
        ends = PROVEN if self._opened.recipe.kv_config else 1.0
        progress = _BEGINS + (ends - _BEGINS) * min(1.0, share)
        message = f"{report.task}: {report.done} of {report.total} {report.unit}"
        self._opened.on_event(Stage(stage="proof", progress=progress, message=message))


def _subject(folder: Path, name: str) -> Subject:
    from core.evals.subjects import folder_subject

    return folder_subject(folder, name=name, role="quantized" if name == MIXED else "uniform")


def _entry(table: ProofTable, name: str) -> Entry:
    return next(entry for entry in table.entries if entry.name == name)
