"""Open an engine by a model's name. Imports no arrays until the compute plan is made.

The order matters: a fast BLAS must be in the process before MLX is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from core.engine.adapters import find_adapter
from core.engine.request import SamplingParams, ToneCurve
from core.errors import BackendMissing
from core.machine.compute import ComputePlan, prepare_compute
from core.offline import offline_switch
from core.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from core.engine.engine import Engine
    from core.engine.loader import LoadedModel
    from core.paths import Paths
    from core.progress import OnProgress
    from core.registry.resolve import ModelRef
    from core.settings import Settings


def open_engine(
    model: str | None,
    *,
    settings: Settings,
    paths: Paths,
    environ: Mapping[str, str],
    on_progress: OnProgress,
    on_note: Callable[[str], None],
    meanwhile: Callable[[], object] | None = None,
    can_train: Callable[[Any], bool] | None = None,
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
        meanwhile: called while the weights are read; must not raise.
        can_train: tells of the loaded model whether it can be trained; None: nobody asks.

    Raises:
        MlxbunError: NotFound, Ambiguous, DownloadFailed, BackendMissing, BadModelFiles, DoesNotFit.
    """
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
        meanwhile=meanwhile,
        can_train=can_train,
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
    meanwhile: Callable[[], object] | None = None,
    can_train: Callable[[Any], bool] | None = None,
) -> Engine:
    """Load a model folder and return the running engine.

    Args:
        model: the model.
        plan: how to compute.
        settings: the merged settings.
        cache: our folder for what can be made again.
        meanwhile: called while the weights are read; must not raise.
        can_train: tells of the loaded model whether it can be trained; None: nobody asks.

    Raises:
        BackendMissing: MLX is installed without what it needs here.
        NotFound: there is no adapter of the name that the settings give.
        BadModelFiles, DoesNotFit: see `core.engine.loader.load`.
    """
    try:
        from core.engine.slim import import_mlx_lm

        import_mlx_lm()
        from core.engine.engine import Engine, EngineOptions
        from core.engine.loader import load, with_kv_budget, with_training
        from core.engine.tokenizer_card import CardShelf
    except ImportError as problem:
        raise BackendMissing(
            f"MLX cannot be imported: {problem}.",
            hint="Run `pip install 'mlxbun[cpu]'`, or 'mlxbun[cuda]' with an NVIDIA GPU.",
        ) from problem
    adapter = find_adapter(settings.adapter, cache=cache) if settings.adapter else None
    defaults = SamplingParams(
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

    def bring() -> LoadedModel:
        loaded = load(
            model.folder,
            model_id=model.model_id,
            plan=plan,
            defaults=defaults,
            memory_budget_gb=settings.memory_budget,
            shelf=CardShelf(cache / "tokenizers"),
            adapter=adapter,
        )
        if settings.kv_budget is not None:
            loaded = with_kv_budget(loaded, settings.kv_budget)
        return with_training(loaded, can_train) if can_train else loaded

    return Engine(
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
        meanwhile=meanwhile,
    )
