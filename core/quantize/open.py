"""A quantization that can begin: everything checked, the model opened, its layers planned.

Imports no arrays until the compute plan is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from core.download.space import check_free_space
from core.engine.backend import import_backend, plan_compute
from core.engine.start import find_model
from core.errors import DoesNotFit, UsageProblem
from core.jobs.stop import Cancelled
from core.progress import ignore_progress
from core.quantize.checks import look, require_model, require_supported
from core.quantize.events import Note, Stage, ignore_event
from core.quantize.plan import Plan, describe_kept, make_plan
from core.quantize.recipe import check_together
from core.registry.files import read_json
from core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from core.machine.compute import ComputePlan
    from core.paths import Paths
    from core.progress import OnProgress
    from core.quantize.checks import Outlook
    from core.quantize.events import OnEvent
    from core.quantize.place import Target
    from core.quantize.recipe import Recipe
    from core.quantize.source import Source
    from core.registry.resolve import ModelRef
    from core.settings import Settings

_BESIDE = 32 * 2**20  # bytes for the files that are not weights


def never() -> bool:
    """Return that a run is not to end."""
    return False


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A quantization that can begin."""

    recipe: Recipe
    """What was chosen."""
    model: ModelRef
    """The model on disk."""
    outlook: Outlook
    """What its headers tell."""
    source: Source
    """It opened; its weights are not read."""
    plan: Plan
    """What becomes of every layer."""
    compute: ComputePlan
    """How to compute."""
    settings: Settings
    """The merged settings."""
    paths: Paths
    """Our folders and the Hugging Face cache."""
    budget_bytes: int
    """Memory for all of it."""
    on_event: OnEvent
    """Hears what happens."""
    check: Callable[[], None]
    """Called often; raises `Cancelled` when the run is to end."""
    notes: list[str] = field(default_factory=list)
    """What is worth knowing about the result; it travels with it."""
    values: bool | None = None
    """Whether values are rotated; None: nothing is rotated."""

    @property
    def target(self) -> Target:
        """Where the result goes."""
        return self.outlook.target

    def tell(self, line: str) -> None:
        """Say something that is worth knowing about this run alone."""
        self.on_event(Note(line=line))

    def note(self, line: str) -> None:
        """Say something that is worth knowing about the result, once."""
        if line not in self.notes:
            self.notes.append(line)
            self.on_event(Note(line=line))


@dataclass(frozen=True, kw_only=True)
class QuantizePlan:
    """What a run would do (`--dry-run`)."""

    model_id: str
    """The model."""
    target: str
    """Where the result would go: a repo id, or a folder."""
    plan: Plan
    """What becomes of every layer."""
    bits_per_weight: float
    """Of the result; for mixed precision, the target."""
    result_bytes: int
    """Bytes of its tensors."""
    source_bytes: int | None
    """Bytes of the source's; None: not known."""
    memory_bytes: int
    """Memory that packing needs at most, beside what Python and MLX take."""
    seconds: float
    """Roughly how long packing takes, without sweep and proof."""
    notes: tuple[str, ...]
    """What is worth knowing, one sentence each."""


def plan_quantize(
    recipe: Recipe,
    *,
    settings: Settings,
    paths: Paths,
    environ: Mapping[str, str],
    on_event: OnEvent = ignore_event,
    on_progress: OnProgress = ignore_progress,
) -> QuantizePlan:
    """Return what `run_quantize` would do; writes nothing.

    Raises:
        MlxbunError: as `run_quantize`.
    """
    opened = open_run(
        recipe,
        settings=settings,
        paths=paths,
        environ=environ,
        on_event=on_event,
        should_stop=never,
        on_progress=on_progress,
    )
    from core.quantize.pack import packing_rate

    plan = opened.plan
    return QuantizePlan(
        model_id=opened.model.model_id,
        target=opened.target.name,
        plan=plan,
        bits_per_weight=plan.target_bpw or plan.bits_per_weight,
        result_bytes=result_bytes(opened),
        source_bytes=opened.outlook.source_bytes,
        memory_bytes=working_bytes(plan),
        seconds=sum(each.layer.count for each in plan.layers) / packing_rate(plan.default),
        notes=tuple(opened.notes),
    )


def open_run(
    recipe: Recipe,
    *,
    settings: Settings,
    paths: Paths,
    environ: Mapping[str, str],
    on_event: OnEvent,
    should_stop: Callable[[], bool],
    on_progress: OnProgress,
) -> Opened:
    """Check everything that can be checked before a weight is read, and open the model.

    Raises:
        MlxbunError: the recipe or the model cannot be used.
    """
    check_together(recipe)
    require_model(recipe)
    if recipe.fit is not None:
        raise UsageProblem("The width that fit asks for has to be chosen first: say bits.")

    def note(line: str) -> None:  # of this machine: it does not belong to the result
        on_event(Note(line=line))

    compute = plan_compute(settings, paths, environ, on_note=note)
    model = find_model(
        recipe.model_id,
        plan=compute,
        settings=settings,
        paths=paths,
        environ=environ,
        on_progress=on_progress,
        on_note=note,
    )
    outlook = look(recipe, model, hub_cache=paths.hub_cache)
    require_supported(model)
    if recipe.rotate_weights:
        _check_rotation(model.folder, recipe)
    on_event(Stage(stage="reading", progress=0.0, message=f"reading {model.model_id}"))
    import_backend("core.quantize.write")
    if not compute.compile_kernels:
        import mlx.core as mx

        mx.disable_compile()
    opened = _planned(
        Opened(
            recipe=recipe,
            model=model,
            outlook=outlook,
            source=_open_source(model.folder, recipe),
            plan=cast(Plan, None),
            compute=compute,
            settings=settings,
            paths=paths,
            budget_bytes=_budget(compute, settings),
            on_event=on_event,
            check=stopping(should_stop),
        )
    )
    _say_what_stays(opened)
    _require_room(opened)
    return opened


def reopened(opened: Opened) -> Source:
    """Return the source as it was opened, with no weight read: rotated, where it is to be."""
    from core.quantize.parts import rotate_source

    source = _open_source(opened.model.folder, opened.recipe)
    if not opened.recipe.rotate_weights:
        return source
    rotated = rotate_source(opened.recipe, source, values=opened.values)
    return replace(source, model=rotated.model, config=rotated.config)


def result_bytes(opened: Opened) -> int:
    """Return the bytes of a result's tensors."""
    plan = opened.plan
    extras = sum(extra.nbytes for extra in opened.source.extras)
    if plan.target_bpw is None:
        return plan.nbytes + extras
    return int(plan.target_bpw * plan.sums.parameters / 8) + extras


def working_bytes(plan: Plan) -> int:
    """Return the memory that packing needs at most: the largest tensor, twice, and its result."""
    return max((2 * each.layer.plain_bytes + each.nbytes for each in plan.layers), default=0)


def stopping(should_stop: Callable[[], bool]) -> Callable[[], None]:
    """Return what raises `Cancelled` once a run is to end."""

    def check() -> None:
        if should_stop():
            raise Cancelled

    return check


def _planned(opened: Opened) -> Opened:
    """Return a run with its plan; rotated first, because that may untie the embedding."""
    from core.quantize.parts import rotate_source
    from core.quantize.source import describe

    source = opened.source
    if opened.recipe.rotate_weights:
        rotated = rotate_source(opened.recipe, source)
        source = replace(source, model=rotated.model, config=rotated.config)
        opened = replace(opened, values=rotated.values)
        for line in rotated.notes:
            opened.note(line)
    layers, sums = describe(source.model)
    return replace(opened, source=source, plan=make_plan(layers, sums, opened.recipe))


def _check_rotation(folder: Path, recipe: Recipe) -> None:
    """Refuse an architecture that cannot be rotated, by its config.json."""
    from core.quantize.rotate.rotating import check_rotation

    check_rotation(
        read_json(folder / "config.json") or {},
        small=recipe.rotation_form == "values",
        text_only=recipe.text_only,
    )


def _open_source(folder: Path, recipe: Recipe) -> Source:
    from core.quantize.source import open_source

    source = open_source(folder)
    return replace(source, extras=(), dropped=source.extras) if recipe.text_only else source


def _say_what_stays(opened: Opened) -> None:
    """Say before any work what will not be packed, and what is left out."""
    packed_as, recipe = opened.outlook.packed_as, opened.recipe
    if packed_as is not None and not recipe.dequantize:
        opened.note(f"The source is quantized already ({packed_as}): its loss is in the result.")
    for line in describe_kept(opened.plan) if not recipe.dequantize else ():
        opened.note(line)
    source = opened.source
    if source.extras:
        nbytes = format_bytes(sum(extra.nbytes for extra in source.extras))
        opened.note(
            f"{len(source.extras)} tensors ({nbytes}) that mlx-lm does not load are written "
            "unchanged, to extras.safetensors."
        )
    if recipe.text_only:
        opened.note(_dropped(source))
    if source.useless:
        opened.note(
            f"{len(source.useless)} tensors are left out that repeat others or are computed from "
            f"them: {', '.join(source.useless[:3])}{' ...' if len(source.useless) > 3 else ''}."
        )


def _dropped(source: Source) -> str:
    """Return what `text_only` does to this model."""
    if source.dropped:
        nbytes = format_bytes(sum(extra.nbytes for extra in source.dropped))
        return f"{len(source.dropped)} tensors ({nbytes}) beside the text model are left out."
    return "text_only has nothing to leave out: all tensors belong to the text model."


def _require_room(opened: Opened) -> None:
    """Refuse a run for which the disk or the memory is too small.

    Raises:
        DoesNotFit: it is.
    """
    need = result_bytes(opened) + _BESIDE
    if opened.plan.target_bpw is not None and opened.recipe.proof:
        need *= 2  # the uniform model that it is compared with
    check_free_space({opened.target.stage: need}, what="The quantized model")
    memory = working_bytes(opened.plan)
    if memory > opened.budget_bytes:
        told = f"{format_bytes(memory)} of memory, and the budget is"
        raise DoesNotFit(
            f"Packing the largest layer takes {told} {format_bytes(opened.budget_bytes)}.",
            need=memory,
            have=opened.budget_bytes,
            hint="Raise --memory-budget, or quantize on a larger machine.",
        )


def _budget(compute: ComputePlan, settings: Settings) -> int:
    from core.engine.device import recommended_working_set

    return compute.budget_bytes(settings.memory_budget, recommended_working_set())
