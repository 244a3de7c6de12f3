"""One training from its configuration to its adapter. Imports no arrays until they are needed.

The order matters, as for an engine: a fast BLAS must be in the process before MLX is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from core.engine.adapters import find_sound_adapter
from core.engine.backend import import_backend, plan_compute
from core.engine.start import find_model
from core.paths import expanded
from core.progress import ignore_progress
from core.provenance import EvalFigure, Origin, Provenance, is_repo_id, write_provenance
from core.registry.adapters import check_adapter
from core.registry.resolve import resolve_model
from core.train.config import recipe_of, require_paths
from core.train.data import check_data, data_notes, idle_fields, load_dataset
from core.train.events import Note, Stage
from core.train.folder import only_training, require_free
from core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from core.engine.tokenizer import Tokenizer
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
            resume=resume,
        )
        result = _train(prepared, on_event, should_stop, resume=resume)
        if result.adapter_step:
            _leave_words(folder, prepared, result, on_event)
    return result


def check_training(
    config: TrainConfig, *, settings: Settings, paths: Paths, resume: bool = False
) -> None:
    """Refuse a training that cannot begin, by what costs next to nothing to read.

    Looks at the names, the data and the headers of the adapter and the model; fetches and loads
    nothing. `run_training` finds the same errors, but only once the accelerator is free.

    Args:
        config: with `model_dir`, `data_dir` and `adapter_path`.
        settings: the merged settings.
        paths: our folders and the Hugging Face cache.
        resume: as `run_training`.

    Raises:
        MlxbunError: the configuration, the data, the adapter or the model cannot be used.
    """
    require_paths(config)
    assert config.adapter_path is not None
    assert config.model_dir is not None
    require_free(expanded(config.adapter_path), resume=resume)
    check_data(config)
    adapter = find_sound_adapter(config.warm_start_adapter, cache=paths.cache)
    if config.model_dir == "starter":  # perhaps still to be fetched
        return
    base = resolve_model(
        config.model_dir, hub_cache=paths.hub_cache, model_folders=settings.model_folders
    )
    if adapter:
        _check_warm_start(adapter, base)


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
    resume: bool = False,
) -> Prepared:
    """Load the data and the model of a training; see `run_training`.

    What is cheap to find wrong comes first: the data before a model is fetched, every row before
    its weights are read.

    Raises:
        MlxbunError: the configuration, the model or the data cannot be used.
    """

    def note(line: str) -> None:
        on_event(Note(line=line))

    check_data(config)
    adapter = find_sound_adapter(config.warm_start_adapter, cache=paths.cache)
    plan = plan_compute(settings, paths, environ, on_note=note)
    base = find_model(
        config.model_dir,
        plan=plan,
        settings=settings,
        paths=paths,
        environ=environ,
        on_progress=on_progress,
        on_note=note,
    )
    if adapter and (remark := _check_warm_start(adapter, base)):
        note(remark)
    import_backend("core.train.model")
    on_event(Stage(stage="data", progress=0.0, message=f"reading {config.data_dir}"))
    tokenizer = _read_tokenizer(base.folder, plan, settings, paths)
    data = _read_data(config, tokenizer, note)
    if resume:
        _check_resumable(config, base, data)
    on_event(Stage(stage="loading", progress=0.0, message=f"loading {base.model_id}"))
    trained = _load(base.folder, config, tokenizer, plan, settings, adapter, note)
    if trained.reference is not None:
        note("DPO's reference is the adapter that the training begins from, not the base model.")
    return Prepared(config=config, base=base, trained=trained, data=data)


def reference_of(config: TrainConfig) -> str | None:
    """Return what DPO compares the policy with, for people; None: the method has no reference."""
    if config.method != "dpo":
        return None
    return "the warm-start adapter" if config.warm_start_adapter else "the base model"


def _check_warm_start(adapter: Path, base: ModelRef) -> str | None:
    return check_adapter(adapter, model=base.folder, model_id=base.model_id, lora=True)


def _check_resumable(config: TrainConfig, base: ModelRef, data: Dataset) -> None:
    """Refuse to resume from a checkpoint of another training, before the model is loaded."""
    from core.train.checkpoint import Marks, check_checkpoint, mark_of_model
    from core.train.loop import fingerprint

    assert config.adapter_path is not None
    marks = Marks(data=fingerprint(data), model=mark_of_model(base.folder))
    check_checkpoint(expanded(config.adapter_path), config, marks=marks)


def _read_tokenizer(folder: Path, plan: ComputePlan, settings: Settings, paths: Paths) -> Tokenizer:
    from core.engine.tokenizer_card import CardShelf
    from core.train.model import read_tokenizer

    return read_tokenizer(
        folder,
        plan=plan,
        memory_budget_gb=settings.memory_budget,
        shelf=CardShelf(paths.cache / "tokenizers"),
    )


def _load(
    folder: Path,
    config: TrainConfig,
    tokenizer: Tokenizer,
    plan: ComputePlan,
    settings: Settings,
    adapter: Path | None,
    note: Callable[[str], None],
) -> TrainModel:
    """Return the model with the adapters that it begins with."""
    from core.train.adapter import warm_start
    from core.train.lora import trainable
    from core.train.model import load_train_model
    from core.train.trial import check_gradients

    trained = load_train_model(
        folder,
        config,
        tokenizer=tokenizer,
        plan=plan,
        memory_budget_gb=settings.memory_budget,
        warm_start=adapter,
        on_note=note,
    )
    if adapter:
        warm_start(trained, adapter)
    check_gradients(config, trained)
    if adapter and config.method == "dpo":
        # Arrays are never changed in place: the policy's steps leave these as they are.
        trained = replace(trained, reference=trainable(trained.model))
    return trained


def _read_data(config: TrainConfig, tokenizer: Tokenizer, note: Callable[[str], None]) -> Dataset:
    data = load_dataset(config, tokenizer)
    for line in (*data_notes(data), *idle_fields(config, data)):
        note(line)
    return data


def describe(prepared: Prepared, result: TrainResult) -> Provenance:
    """Return where an adapter comes from, for its `mlxbun.json`."""
    known = {n: v for n, v in recipe_of(prepared.config).items() if v not in (None, [])}
    recipe: dict[str, Value] = {n: tuple(v) if isinstance(v, list) else v for n, v in known.items()}
    recipe |= {
        **({"reference": reference} if (reference := reference_of(prepared.config)) else {}),
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
