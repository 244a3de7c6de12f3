"""One training from its configuration to its adapter. Imports no arrays until they are needed.

The order matters, as for an engine: a fast BLAS must be in the process before MLX is.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal, cast

from core.engine.start import find_model
from core.errors import BackendMissing
from core.machine.compute import prepare_compute
from core.paths import expanded
from core.progress import ignore_progress
from core.provenance import EvalFigure, Origin, Provenance, is_repo_id, write_provenance
from core.train.config import recipe_of, require_paths
from core.train.events import Note, Stage
from core.train.folder import only_training, require_free
from core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from core.machine.compute import ComputePlan
    from core.paths import Paths
    from core.progress import OnProgress
    from core.provenance import Value
    from core.registry.resolve import ModelRef
    from core.settings import Settings
    from core.train.config import TrainConfig
    from core.train.data import Dataset
    from core.train.events import OnEvent, TrainResult
    from core.train.model import TrainModel


_LESS = "a smaller batch_size or segment_size, or grad_checkpoint, takes less."


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A training that can begin."""

    config: TrainConfig
    """What was chosen."""
    base: ModelRef
    """The model on disk."""
    trained: TrainModel
    """It in memory, with fresh adapters."""
    data: Dataset
    """Its rows."""


def run_training(
    config: TrainConfig,
    *,
    settings: Settings,
    paths: Paths,
    environ: Mapping[str, str],
    on_event: OnEvent,
    should_stop: Callable[[], bool],
    resume: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> TrainResult:
    """Train an adapter. For the main thread of a process that has not imported MLX yet.

    Args:
        config: with `model_dir`, `data_dir` and `adapter_path`.
        settings: the merged settings: BLAS, dequantizing, memory budget, folders of models.
        paths: our folders and the Hugging Face cache.
        environ: the environment.
        on_event: hears what happens; see `core.train.events`.
        should_stop: asked after every step; then all is saved, and the result says `stopped`.
        resume: go on from the last checkpoint in `adapter_path`.
        on_progress: hears of downloads.

    Raises:
        MlxbunError: the configuration, the model or the data cannot be used; the loss exploded;
            the adapter cannot be written; another process trains into the same folder.
    """
    require_paths(config)
    assert config.adapter_path is not None
    folder = expanded(config.adapter_path)
    with only_training(folder):
        require_free(folder, resume=resume)
        prepared = prepare_training(
            config,
            settings=settings,
            paths=paths,
            environ=environ,
            on_event=on_event,
            on_progress=on_progress,
        )
        result = _train(prepared, on_event, should_stop, resume=resume)
        if result.adapter_step:
            _leave_words(folder, prepared, result, on_event)
    return result


def _train(
    prepared: Prepared, on_event: OnEvent, should_stop: Callable[[], bool], *, resume: bool
) -> TrainResult:
    from core.train.checkpoint import mark_of_model
    from core.train.estimate import memory_needed
    from core.train.loop import Training

    needed = memory_needed(prepared.config, prepared.trained, prepared.data)
    budget = prepared.trained.budget_bytes
    if needed is not None and needed > budget:
        told = f"{format_bytes(needed)} of memory, and the budget is {format_bytes(budget)}"
        on_event(Note(line=f"This may take {told}: {_LESS}"))

    training = Training(
        prepared.config,
        prepared.trained,
        prepared.data,
        base=prepared.base.model_id,
        model=mark_of_model(prepared.base.folder),
        on_event=on_event,
        should_stop=should_stop,
    )
    return training.run(resume=resume)


def _leave_words(folder: Path, prepared: Prepared, result: TrainResult, on_event: OnEvent) -> None:
    """Leave beside an adapter where it comes from, and its curves."""
    from core.train.plot import write_plots

    try:
        write_provenance(folder, describe(prepared, result))
        for note in write_plots(folder):
            on_event(Note(line=note))
    except OSError as problem:
        told = problem.strerror or problem
        on_event(Note(line=f"What tells of the adapter could not be written: {told}."))


def prepare_training(
    config: TrainConfig,
    *,
    settings: Settings,
    paths: Paths,
    environ: Mapping[str, str],
    on_event: OnEvent,
    on_progress: OnProgress = ignore_progress,
) -> Prepared:
    """Load the model and the data of a training; see `run_training`.

    Raises:
        MlxbunError: the configuration, the model or the data cannot be used.
    """

    def note(line: str) -> None:
        on_event(Note(line=line))

    plan = _plan(settings, paths, environ, note)
    base = find_model(
        config.model_dir,
        plan=plan,
        settings=settings,
        paths=paths,
        environ=environ,
        on_progress=on_progress,
        on_note=note,
    )
    _import_backend()
    on_event(Stage(stage="loading", progress=0.0, message=f"loading {base.model_id}"))
    trained = _load(base.folder, config, plan, settings, paths, note)
    on_event(Stage(stage="data", progress=0.0, message=f"reading {config.data_dir}"))
    data = _read_data(config, trained, note)
    return Prepared(config=config, base=base, trained=trained, data=data)


def _plan(
    settings: Settings, paths: Paths, environ: Mapping[str, str], note: Callable[[str], None]
) -> ComputePlan:
    plan = prepare_compute(
        blas=settings.blas,
        dequantize=cast(Literal["auto", "on", "off"], settings.dequantize),
        cache=paths.cache,
        environ=environ,
    )
    for line in plan.notes:
        note(line)
    return plan


def _import_backend() -> None:
    """Import what computes, once a fast BLAS is in the process.

    Raises:
        BackendMissing: it cannot be imported.
    """
    try:
        from core.engine.slim import import_mlx_lm

        import_mlx_lm()
        import_module("core.train.model")
    except ImportError as problem:
        raise BackendMissing(
            f"MLX cannot be imported: {problem}.",
            hint="Run `pip install 'mlxbun[cpu]'`, or 'mlxbun[cuda]' with an NVIDIA GPU.",
        ) from problem


def _load(
    folder: Path,
    config: TrainConfig,
    plan: ComputePlan,
    settings: Settings,
    paths: Paths,
    note: Callable[[str], None],
) -> TrainModel:
    """Return the model with the adapters that it begins with."""
    from core.engine.tokenizer_card import CardShelf
    from core.train.adapter import warm_start
    from core.train.model import load_train_model
    from core.train.trial import check_gradients

    trained = load_train_model(
        folder,
        config,
        plan=plan,
        memory_budget_gb=settings.memory_budget,
        shelf=CardShelf(paths.cache / "tokenizers"),
        on_note=note,
    )
    if config.warm_start_adapter:
        warm_start(trained, config.warm_start_adapter)
    check_gradients(config, trained)
    return trained


def _read_data(config: TrainConfig, trained: TrainModel, note: Callable[[str], None]) -> Dataset:
    from core.train.data import data_notes, idle_fields, load_dataset

    data = load_dataset(config, trained.tokenizer)
    for line in (*data_notes(data), *idle_fields(config, data)):
        note(line)
    return data


def describe(prepared: Prepared, result: TrainResult) -> Provenance:
    """Return where an adapter comes from, for its `mlxbun.json`."""
    known = {n: v for n, v in recipe_of(prepared.config).items() if v not in (None, [])}
    recipe: dict[str, Value] = {n: tuple(v) if isinstance(v, list) else v for n, v in known.items()}
    recipe |= {
        "training rows": len(prepared.data.train),
        "validation rows": len(prepared.data.valid),
        "steps": result.step,
        "step of the adapter": result.adapter_step,
        "tokens learned from": result.trained_tokens,
    }
    return Provenance(
        base=_origin(prepared.base),
        relation="adapter",
        recipe=recipe,
        figures=tuple(_figures(result)),
        versions={name: version(name) for name in ("mlxbun", "mlx", "mlx-lm")},
    )


def describe_fused(folder: Path, base: ModelRef) -> None:
    """Leave in a fused model's folder where it comes from.

    Raises:
        OSError: it cannot be written.
    """
    versions = {name: version(name) for name in ("mlxbun", "mlx", "mlx-lm")}
    write_provenance(folder, Provenance(base=_origin(base), relation="finetune", versions=versions))


def _figures(result: TrainResult) -> list[EvalFigure]:
    where = f"the {result.measured_on} rows"
    pairs = [
        ("loss", "nats", result.after.loss, result.before.loss),
        ("perplexity", None, result.after.perplexity, result.before.perplexity),
        ("preference accuracy", None, result.after.accuracy, result.before.accuracy),
        ("reward margin", "nats", result.after.reward_margin, result.before.reward_margin),
    ]
    return [
        EvalFigure(name=name, value=after, unit=unit, data=where, base_value=before)
        for name, unit, after, before in pairs
        if after is not None and before is not None
        if abs(after) < float("inf") and abs(before) < float("inf")
    ]


def _origin(base: ModelRef) -> Origin | None:
    name = base.model_id.partition("@")[0]
    if not is_repo_id(name):
        return None
    is_snapshot = base.folder.parent.name == "snapshots"
    return Origin(repo_id=name, revision=base.folder.name if is_snapshot else None)
