"""One quantization from its recipe to a model on the disk. Imports no arrays until they are needed.

open (`core.quantize.open`) -> choose forms -> pack and write to a staging folder -> read back ->
prove, on the written folder -> where ours is not better, the uniform instead -> publish by rename.
Interrupted, the same call continues in the staging folder.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.errors import BadModelFiles, MlxbunError, ProofFailed, UsageProblem
from core.progress import ignore_progress
from core.quantize.events import Stage, ignore_event
from core.quantize.open import Opened, QuantizePlan, never, open_run, plan_quantize, reopened
from core.quantize.place import check_target
from core.quantize.plan import Choice, Plan, uniform_near
from core.quantize.record import leave_record
from core.quantize.resume import Key, key_of, open_stage
from core.quantize.resume import Stage as StagingFolder
from core.registry.cache import publish_files
from core.registry.weights import check_weights
from core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from core.evals.table import ProofTable
    from core.paths import Paths
    from core.progress import OnProgress
    from core.quantize.events import OnEvent
    from core.quantize.place import Target
    from core.quantize.recipe import Recipe
    from core.quantize.write import Packed
    from core.settings import Settings

__all__ = ["Opened", "QuantizePlan", "QuantizeResult", "plan_quantize", "run_quantize"]

_MIXED, _UNIFORM = "mixed", "uniform"
# The part of packing in the progress of a run; the sweep comes before, the proof afterwards.
_ALONE, _OURS, _RIVAL = (0.0, 0.85), (0.5, 0.8), (0.8, 0.88)


@dataclass(frozen=True, kw_only=True)
class QuantizeResult:
    """What a run has made."""

    folder: Path
    """The model's folder."""
    repo_id: str | None
    """What it is called in the cache; None: it is a plain folder."""
    commit: str | None
    """Its snapshot; None: it is a plain folder."""
    bits_per_weight: float
    """As mlx-lm's `compute_bits_per_weight` finds it on the folder."""
    weights_bytes: int
    """Bytes of the tensors that mlx-lm loads."""
    source_bytes: int | None
    """Bytes of the source's tensors."""
    requantized: str | None
    """How the source was packed: its loss is in the result, too. None: it was not."""
    kept: tuple[tuple[str, str], ...]
    """Layers that could be packed and are not, each with the reason, as a clause."""
    notes: tuple[str, ...]
    """What was worth knowing, one sentence each."""
    table: ProofTable | None = None
    """The proof: original, uniform and ours. None: there is none."""
    uniform_instead: bool = False
    """Whether the uniform model was written, because ours was not better."""
    existing: bool = False
    """Whether the same was there already, and nothing was done."""


@dataclass(frozen=True, kw_only=True)
class _Written:
    """A model in a staging folder."""

    plan: Plan
    """Its forms."""
    bpw: float
    """Its bits per weight."""
    choice: Choice | None = None
    """What its forms, or those of the mixed one, were chosen by; None: there was no choice."""
    table: ProofTable | None = None
    """The proof."""
    rival: Plan | None = None
    """The uniform model that a mixed one was compared with; None: it was not."""
    uniform_instead: bool = False
    """Whether it is the uniform one, because ours was not better."""


def run_quantize(
    recipe: Recipe,
    *,
    settings: Settings,
    paths: Paths,
    environ: Mapping[str, str],
    on_event: OnEvent = ignore_event,
    should_stop: Callable[[], bool] = never,
    on_progress: OnProgress = ignore_progress,
) -> QuantizeResult:
    """Quantize a model. For the main thread of a process that has not imported MLX yet.

    Args:
        recipe: what was chosen.
        settings: the merged settings: BLAS, memory budget, folders of models.
        paths: our folders and the Hugging Face cache.
        environ: the environment.
        on_event: hears what happens; see `core.quantize.events`.
        should_stop: asked at every tensor.
        on_progress: hears of downloads.

    Raises:
        Cancelled: `should_stop` said so; nothing is visible, and the same call continues.
        MlxbunError: the recipe or the model cannot be used; the result cannot be written.
    """
    opened = open_run(
        recipe,
        settings=settings,
        paths=paths,
        environ=environ,
        on_event=on_event,
        should_stop=should_stop,
        on_progress=on_progress,
    )
    with _saying(opened.target):
        key = key_of(recipe, opened.model.folder)
        if opened.target.is_done(key.commit):
            return _existing(opened, key)
        with open_stage(opened.target, key) as stage:
            if stage.is_sealed:  # it was interrupted on its way to its place
                _publish(opened, key, stage)
                return _existing(opened, key)
            return _made(opened, key, stage)


def _made(opened: Opened, key: Key, stage: StagingFolder) -> QuantizeResult:
    """Write a model, prove it, and put it in its place."""
    if stage.restarted:
        opened.tell("An interrupted run was of another recipe or source: starting over.")
    elif stage.resumes and stage.written:
        opened.tell(f"Resuming an interrupted run: {len(stage.written)} tensors are written.")
    try:
        written = _written(opened, key, stage)
        if key_of(opened.recipe, opened.model.folder) != key:
            raise BadModelFiles(f"The files of {opened.model.model_id} changed during the run.")
    except (BadModelFiles, ProofFailed, UsageProblem):
        stage.remove()
        raise
    folder = _publish(opened, key, stage)
    opened.on_event(Stage(stage="checking", progress=1.0, message="done"))
    return _result(opened, key, folder, written)


def _written(opened: Opened, key: Key, stage: StagingFolder) -> _Written:
    """Return the model in the staging folder, complete."""
    from core.quantize.parts import choose_forms, fitted_packs, write_kv_config

    if opened.plan.target_bpw is None:
        written = _Written(plan=opened.plan, bpw=_write(opened, opened.plan, stage, None, _ALONE))
        written = _proven(opened, written, {_UNIFORM: stage.files})
    else:
        plan = choose_forms(opened)
        bpw = _write(opened, plan, stage, fitted_packs(opened, plan), _OURS)
        written = _guarded(opened, key, stage, _Written(plan=plan, bpw=bpw))
        written = replace(written, choice=plan.choice)
    if opened.recipe.kv_config:
        write_kv_config(opened, stage.files)
    _leave_words(opened, written, stage.files)
    return written


def _leave_words(opened: Opened, written: _Written, folder: Path) -> None:
    """Hold a model to its limits, and leave beside it how it was made and what was measured.

    Raises:
        ProofFailed: it misses a limit.
    """
    from core.evals.record import figures_of
    from core.quantize.proof import hold_to_limits, leave_proof, published

    uniform = written.uniform_instead or opened.plan.target_bpw is None
    table = written.table
    if table is not None:
        hold_to_limits(opened, table, _UNIFORM if uniform else _MIXED)
        table = published(table, uniform_instead=written.uniform_instead)
    figures = figures_of(table) if table else ()
    leave_record(folder, opened, written.plan, bpw=written.bpw, figures=figures)
    choice = written.choice
    leave_proof(
        folder,
        opened,
        table,
        baseline=written.rival,
        calibration=choice.calibration if choice else None,
        sweep=choice.sweep if choice else None,
    )


def _proven(opened: Opened, written: _Written, folders: Mapping[str, Path]) -> _Written:
    from core.quantize.parts import prove

    if not opened.recipe.proof or opened.recipe.dequantize:
        return written
    return replace(written, table=prove(opened, folders))


def _guarded(opened: Opened, key: Key, stage: StagingFolder, ours: _Written) -> _Written:
    """Compare a mixed model with the uniform one of its size, and keep the better one."""
    target = opened.plan.target_bpw
    assert target is not None
    rival = uniform_near(opened.plan, target)
    if not opened.recipe.proof or rival is None:
        return _proven(opened, ours, {_MIXED: stage.files})
    from core.quantize.proof import is_worse

    place = stage.folder / _UNIFORM
    place.mkdir(exist_ok=True)
    other = StagingFolder(place, key)
    try:
        theirs = _Written(plan=rival, bpw=_write(opened, rival, other, None, _RIVAL))
        ours = _proven(opened, ours, {_MIXED: stage.files, _UNIFORM: other.files})
        if ours.table is None or not is_worse(ours.table):
            return replace(ours, rival=rival)
        shutil.rmtree(stage.files)
        other.files.replace(stage.files)
    finally:
        other.close()
        shutil.rmtree(place, ignore_errors=True)
    opened.note(
        "Mixed precision was not better than the uniform model of its size in held-out KL: the "
        "uniform one is written."
    )
    return replace(ours, plan=theirs.plan, bpw=theirs.bpw, uniform_instead=True)


def _write(
    opened: Opened,
    plan: Plan,
    stage: StagingFolder,
    packs: Iterator[Packed] | None,
    span: tuple[float, float],
) -> float:
    """Write a model to a staging folder, read it back, and return its bits per weight.

    Args:
        opened: the run.
        plan: the forms of the model.
        stage: where to write it.
        packs: the packed layers; None: weights are rounded as they are.
        span: where this begins and ends in the progress of the run.
    """
    from core.quantize import write

    source = reopened(opened)  # its arrays go as they are written
    layout = write.lay_out(source.model, plan, source.extras)
    write.remove_strays(stage.files, layout)
    check = opened.check
    with write.Writer(layout, stage, on_bytes=_packing(opened, *span)) as writer:
        if packs is None:
            write.write_plain(source.model, plan, writer, check=check)
        else:
            write.write_fitted(source.model, plan, packs, writer, check=check)
        write.write_extras(source.extras, writer, check=check)
    text_only = opened.recipe.text_only
    write.write_beside(source, plan, layout, stage.files, text_only=text_only)
    opened.on_event(Stage(stage="checking", progress=span[1], message="reading back"))
    return write.read_back(stage.files, stage, layout, check=check)


def _packing(opened: Opened, begins: float, ends: float) -> Callable[[int, int], None]:
    """Return what tells of bytes that are written, a hundred times a run at most."""
    last = -1

    def on_bytes(done: int, total: int) -> None:
        nonlocal last
        share = 100 * done // max(1, total)
        if share > last:
            last = share
            told = f"packing: {format_bytes(done)} of {format_bytes(total)}"
            progress = begins + (ends - begins) * done / max(1, total)
            opened.on_event(Stage(stage="packing", progress=progress, message=told))

    return on_bytes


def _publish(opened: Opened, key: Key, stage: StagingFolder) -> Path:
    """Move a complete model to its place, in one step; the staging folder goes.

    Raises:
        UsageProblem: the place was taken during the run; the staging folder stays.
    """
    target = opened.target
    check_target(target, opened.model.folder)
    if target.repo_id is not None:
        folder = publish_files(
            stage.files,
            repo_id=target.repo_id,
            stage=stage.folder,
            hub_cache=target.hub_cache,
            commit=key.commit,
        )
    else:
        for path in (path for path in stage.files.rglob("*") if path.is_file()):
            with path.open("rb") as file:
                os.fsync(file.fileno())
        folder = target.folder
        stage.files.rename(folder)
    stage.remove()
    return folder


def _existing(opened: Opened, key: Key) -> QuantizeResult:
    """Return the result that was made by an earlier run of the same recipe and source.

    Raises:
        ProofFailed: its proof misses a limit of this run, which may have others.
    """
    from core.evals.record import read_record
    from core.quantize.proof import hold_to_limits
    from core.quantize.write import bits_per_weight

    folder = opened.target.snapshot(key.commit)
    opened.tell(f"{opened.target.name} is there already, of the same recipe and source.")
    record = read_record(folder)
    table = record.table if record else None
    names = {entry.name: entry.role for entry in table.candidates} if table else {}
    is_mixed = names.get(_MIXED) == "quantized"
    if table is not None:
        hold_to_limits(opened, table, _MIXED if is_mixed else _UNIFORM)
    written = _Written(
        plan=opened.plan,
        bpw=bits_per_weight(folder),
        table=table,
        uniform_instead=_MIXED in names and not is_mixed,
    )
    return _result(opened, key, folder, written, existing=True)


def _result(
    opened: Opened, key: Key, folder: Path, written: _Written, *, existing: bool = False
) -> QuantizeResult:
    recipe, repo_id = opened.recipe, opened.target.repo_id
    kept = written.plan.kept if not recipe.dequantize else ()
    return QuantizeResult(
        folder=folder,
        repo_id=repo_id,
        commit=key.commit if repo_id is not None else None,
        bits_per_weight=written.bpw,
        weights_bytes=check_weights(folder),
        source_bytes=opened.outlook.source_bytes,
        requantized=None if recipe.dequantize else opened.outlook.packed_as,
        kept=tuple((each.layer.path, each.reason or "") for each in kept),
        notes=tuple(opened.notes),
        table=written.table,
        uniform_instead=written.uniform_instead,
        existing=existing,
    )


@contextmanager
def _saying(target: Target) -> Iterator[None]:
    """Turn what the disk refuses into one sentence.

    Raises:
        MlxbunError: the result cannot be written.
    """
    try:
        yield
    except OSError as problem:
        if isinstance(problem, FileNotFoundError) and problem.filename:
            raise MlxbunError(
                f"{problem.filename} disappeared during the run.",
                hint="Restore it; the same command then continues.",
            ) from problem
        raise MlxbunError(
            f"{target.name} could not be written: {problem.strerror or problem}.",
            hint="Free some space, or choose another --output; the same command then continues.",
        ) from problem
