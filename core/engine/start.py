"""Open an engine by a model's name. Imports no arrays until the compute plan is made.

The order matters: a fast BLAS must be in the process before MLX is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from core.engine.adapters import find_sound_adapter
from core.engine.request import SamplingParams, ToneCurve
from core.errors import BackendMissing, UsageProblem
from core.fit.batching import BatchingShelf
from core.machine.compute import ComputePlan, prepare_compute
from core.offline import offline_switch
from core.registry.adapters import check_adapter
from core.registry.facts import shows_chat_template
from core.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from core.engine.engine import Engine
    from core.engine.loader import LoadedModel
    from core.engine.tokenizer_card import CardShelf
    from core.paths import Paths
    from core.progress import OnProgress
    from core.registry.resolve import ModelRef
    from core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What a caller needs of an engine besides answers."""

    chats: bool = False
    """Whether the model must have a chat template."""
    meanwhile: Callable[[], object] | None = None
    """Called while the weights are read; must not raise."""
    can_train: Callable[[Any], bool] | None = None
    """Takes the loaded model and returns whether it can be trained; None: not needed."""


def open_engine(
    model: str | None,
    *,
    settings: Settings,
    paths: Paths,
    environ: Mapping[str, str],
    on_progress: OnProgress,
    on_note: Callable[[str], None],
    opening: Opening | None = None,
) -> Engine:
    """Find or fetch the model, decide how to compute, load, and return the running engine.

    Args:
        model: a folder, a repo id or a part of one; None: the setting, else the one model in the
            cache, else the starter, which is fetched.
        settings: the merged settings.
        paths: our folders and the Hugging Face cache.
        environ: the environment, for what huggingface_hub and pip look at.
        on_progress: hears of downloads.
        on_note: hears one sentence at a time of what is worth knowing.
        opening: what else the caller needs; None: nothing.

    Raises:
        MlxbunError: NotFound, Ambiguous, DownloadFailed, BackendMissing, BadModelFiles, DoesNotFit.
    """
    find_sound_adapter(settings.adapter, cache=paths.cache)  # before a model is fetched
    plan = prepare_compute(
        blas=settings.blas,
        dequantize=cast(Literal["auto", "on", "off"], settings.dequantize),
        cache=paths.cache,
        environ=environ,
    )
    found = find_model(
        model or settings.model,
        plan=plan,
        settings=settings,
        paths=paths,
        environ=environ,
        on_progress=on_progress,
        on_note=on_note,
    )
    return start_engine(
        found,
        plan=plan,
        settings=settings,
        cache=paths.cache,
        on_note=on_note,
        opening=opening,
    )


def find_model(
    name: str | None,
    *,
    plan: ComputePlan,
    settings: Settings,
    paths: Paths,
    environ: Mapping[str, str],
    on_progress: OnProgress,
    on_note: Callable[[str], None],
) -> ModelRef:
    """Return the model that is meant, fetching the starter when there is none at all.

    `starter` is a name too: the starter, wherever it comes from.

    Raises:
        MlxbunError: as `open_engine`.
    """
    from core.registry.resolve import default_model, find_starter, resolve_model

    if name == "starter":
        found = find_starter(hub_cache=paths.hub_cache)
    elif name is not None:
        return resolve_model(name, hub_cache=paths.hub_cache, model_folders=settings.model_folders)
    else:
        found = default_model(
            hub_cache=paths.hub_cache,
            model_folders=settings.model_folders,
            index=paths.library_file,
        )
    if found is not None:
        return found
    from core.download import fetch_starter

    if offline_switch(environ) is None:
        on_note("There is no starter model in the Hugging Face cache yet: fetching it.")
    return fetch_starter(
        paths=paths,
        environ=environ,
        memory_budget_bytes=plan.budget_bytes(settings.memory_budget, None),
        has_gpu=plan.machine.backend != "cpu",
        on_progress=on_progress,
        on_note=on_note,
    )


def start_engine(
    model: ModelRef,
    *,
    plan: ComputePlan,
    settings: Settings,
    cache: Path,
    on_note: Callable[[str], None],
    opening: Opening | None = None,
) -> Engine:
    """Load a model folder and return the running engine.

    Args:
        model: the model.
        plan: how to compute.
        settings: the merged settings.
        cache: our folder for what can be made again.
        on_note: hears one sentence at a time of what is worth knowing.
        opening: what else the caller needs; None: nothing.

    Raises:
        BackendMissing: MLX is installed without what it needs here.
        UsageProblem: the model must have a chat template, and has none.
        NotFound: there is no adapter of the name that the settings give.
        BadModelFiles: the adapter does not fit the model; or see `core.engine.loader.load`.
        DoesNotFit: see `core.engine.loader.load`.
    """
    opening = opening or Opening()
    adapter = fitting_adapter(settings.adapter, model, cache=cache, on_note=on_note)
    try:
        from core.engine.slim import import_mlx_lm, import_tuner

        import_mlx_lm()
        if adapter:
            import_tuner()  # here rather than beside the thread that reads the tokenizer
        from core.engine.engine import Engine, EngineOptions
        from core.engine.loader import load, with_kv_budget, with_training
        from core.engine.tokenizer_card import CardShelf
    except ImportError as problem:
        raise BackendMissing(
            f"MLX cannot be imported: {problem}.",
            hint="Run `pip install 'mlxbun[cpu]'`, or 'mlxbun[cuda]' with an NVIDIA GPU.",
        ) from problem
    shelf = CardShelf(cache / "tokenizers")
    if opening.chats:
        _require_template(model, shelf)

    def bring() -> LoadedModel:
        loaded = load(
            model.folder,
            model_id=model.model_id,
            plan=plan,
            defaults=_sampling_defaults(settings),
            memory_budget_gb=settings.memory_budget,
            shelf=shelf,
            adapter=adapter,
        )
        if settings.kv_budget is not None:
            loaded = with_kv_budget(loaded, settings.kv_budget)
        return with_training(loaded, opening.can_train) if opening.can_train else loaded

    engine = Engine(
        bring,
        EngineOptions(
            batch=settings.batch,
            max_tokens=settings.max_tokens,
            prompt_cache_bytes=int(settings.prompt_cache * GIB),
            keep_alive_seconds=60 * settings.keep_alive if settings.keep_alive else None,
            thinking=settings.thinking,
            grammar=settings.grammar,
            prefill=cast(Literal["latency", "throughput"], settings.prefill),
        ),
        shelf=BatchingShelf.in_cache(cache),
        meanwhile=opening.meanwhile,
    )
    for note in engine.info.notes:
        on_note(note)
    return engine


def _sampling_defaults(settings: Settings) -> SamplingParams:
    return SamplingParams(
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=settings.top_k,
        min_p=settings.min_p,
        tone_curve=ToneCurve(
            enabled=settings.hlg_sampling,
            width=settings.hlg_width,
            shoulder=settings.hlg_shoulder,
            toe=settings.hlg_toe,
            pivot_offset=settings.hlg_pivot_offset,
        ),
    )


def fitting_adapter(
    name: str | None,
    model: ModelRef,
    *,
    cache: Path,
    on_note: Callable[[str], None] = lambda _line: None,
) -> Path | None:
    """Return the folder of an adapter, once the files show that it fits a model.

    Args:
        name: as `find_sound_adapter`.
        model: the model.
        cache: our cache, where some adapters are kept.
        on_note: hears what is worth knowing.

    Raises:
        NotFound: there is no such adapter.
        BadModelFiles: the adapter is broken, or does not fit.
    """
    adapter = find_sound_adapter(name, cache=cache)
    if adapter is None:
        return None
    note = check_adapter(adapter, model=model.folder, model_id=model.model_id)
    if note is not None:
        on_note(note)
    return adapter


def _require_template(model: ModelRef, shelf: CardShelf) -> None:
    """Refuse a model that cannot chat before its weights are read.

    The tokenizer decides, but is only read where no template lies in a usual place.
    """
    from core.engine.loader import read_tokenizer

    there = shows_chat_template(model.folder)
    if not (there or read_tokenizer(model.folder, shelf).has_chat_template):
        raise UsageProblem(
            f"{model.model_id} has no chat template, so it cannot chat.",
            hint="`mlxbun generate --raw` continues a text with it.",
        )
