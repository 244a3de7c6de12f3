"""One run of the benchmark: open, measure, keep, show, draw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, cast

from commands.bench.show import show_run
from core.bench.measure import Sample, measure
from core.bench.plan import Limits, Plan, Wishes, make_plan
from core.bench.plot import draw_run, write_picture
from core.bench.report import describe_run
from core.drawing import check_picture
from core.engine.adapters import find_sound_adapter
from core.engine.start import find_model, start_engine
from core.errors import MlxbunError
from core.figures import FigureStore, Run
from core.machine.compute import prepare_compute

if TYPE_CHECKING:
    from pathlib import Path

    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.engine.engine import Engine
    from core.machine.probe import Machine
    from core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class _Opened:
    """A model in memory, and what it is measured on."""

    engine: Engine
    """Running."""
    folder: Path
    """Of the model."""
    machine: Machine
    """This one."""


def run_bench(
    model: str | None,
    wishes: Wishes,
    picture: Path | None,
    *,
    settings: Settings,
    session: Session,
    console: Console,
) -> None:
    """Measure a model, keep the run and show it.

    Ctrl-C shows what was measured so far and keeps it as partial.

    Args:
        model: its name; None: the setting, the cache's only one, or the starter.
        wishes: what to measure.
        picture: a file to draw into, or None.
        settings: the merged settings.
        session: the environment and the folders.
        console: the output.

    Raises:
        MlxbunError: it cannot be opened, measured, kept or drawn.
        KeyboardInterrupt: after what there is was shown.
    """
    if picture:
        check_picture(picture, example="bench.png")
    settings = replace(settings, keep_alive=None)  # a model that unloads is not measured
    opened = _open(model, settings=settings, session=session, console=console)
    plan = _plan(wishes, opened.engine, settings, console)
    samples, complete = _measure(opened.engine, plan, console)
    if not samples:
        raise KeyboardInterrupt
    run = describe_run(
        samples,
        plan=plan,
        engine=opened.engine,
        folder=opened.folder,
        machine=opened.machine,
        settings=settings,
        now=datetime.now(UTC),
        complete=complete,
    )
    _hand_over(run, picture if complete else None, session=session, console=console)
    if not complete:
        raise KeyboardInterrupt
    opened.engine.close()


def _open(model: str | None, *, settings: Settings, session: Session, console: Console) -> _Opened:
    find_sound_adapter(settings.adapter, cache=session.paths.cache)  # before a model is fetched
    plan = prepare_compute(
        blas=settings.blas,
        dequantize=cast(Literal["auto", "on", "off"], settings.dequantize),
        cache=session.paths.cache,
        environ=session.environ,
    )
    with console.progress() as on_progress:
        found = find_model(
            model or settings.model,
            plan=plan,
            settings=settings,
            paths=session.paths,
            environ=session.environ,
            on_progress=on_progress,
            on_note=console.note,
        )
    engine = start_engine(
        found, plan=plan, settings=settings, cache=session.paths.cache, on_note=console.note
    )
    return _Opened(engine=engine, folder=found.folder, machine=plan.machine)


def _plan(wishes: Wishes, engine: Engine, settings: Settings, console: Console) -> Plan:
    limits = Limits(
        context=engine.max_context,
        batch=settings.batch,
        serial=engine.info.batching.serial_reason,
        prompt_cache=settings.prompt_cache > 0,
    )
    plan = make_plan(wishes, limits)
    for note in plan.notes:
        console.note(note)
    return plan


def _measure(engine: Engine, plan: Plan, console: Console) -> tuple[list[Sample], bool]:
    """Return the samples, and whether all were taken."""
    samples: list[Sample] = []
    notes: list[str] = []
    try:
        with console.progress() as on_progress:
            # `extend` keeps what came before Ctrl-C.
            samples.extend(measure(engine, plan, on_progress=on_progress, on_note=notes.append))
    except KeyboardInterrupt:
        return samples, False
    for note in notes:
        console.note(note)
    return samples, True


def _hand_over(run: Run, picture: Path | None, *, session: Session, console: Console) -> None:
    """Keep, show and draw a run; what goes wrong with one of them leaves the others."""
    store = FigureStore(session.paths.figures_file, on_note=console.note)
    problem: MlxbunError | None = None
    try:
        run = replace(run, run_id=store.add(run))
    except MlxbunError as reason:
        problem = reason
    show_run(run, console)
    if run.run_id is not None:
        console.note(f"kept as run {run.run_id} in {session.paths.figures_file}")
    if picture:
        write_picture(draw_run(run), picture)
        console.note(f"drawn in {picture}")
    if problem:
        raise problem
