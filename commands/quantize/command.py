"""One quantization at the shell: the recipe from file and options, then quantize and show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from commands._shared.fields import read_fields
from commands._shared.interrupts import Interrupts
from commands.quantize.showing import show_missed, show_result, shown_events
from core.errors import ProofFailed, UsageProblem
from core.fit.host import find_host
from core.jobs.lease import hold_lease
from core.jobs.stop import Cancelled
from core.quantize.begin import make_ready
from core.quantize.events import Note, Stage
from core.quantize.recipe import make_recipe
from core.quantize.run import plan_quantize, run_quantize

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.evals.table import ProofTable
    from core.quantize.events import QuantizeEvent
    from core.quantize.recipe import Recipe
    from core.quantize.run import QuantizeResult
    from core.settings import Settings

_STOPPING = "Stopping after the current tensor; press Ctrl-C again to stop at once."
_KEPT = "Stopped. Partial files are kept; run the same command again to resume."


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a quantization is run."""

    file: Path | None
    """A file with more fields of the recipe, or None."""
    plot: Path | None
    """A picture to draw, or None."""
    dry_run: bool
    """Only show what would happen."""
    settings: Settings
    """The merged settings."""
    session: Session
    """The environment and the folders."""

    @property
    def places(self) -> dict[str, Any]:
        """What `core.quantize.run` takes."""
        session = self.session
        return {
            "settings": self.settings,
            "paths": session.paths,
            "environ": session.environ,
        }


def run_quantization(given: Mapping[str, Any], run: Run, console: Console) -> None:
    """Quantize, or show what a quantization would be.

    Args:
        given: raw values of fields of the recipe; None: not given.
        run: the rest.
        console: the output.

    Raises:
        ProofFailed: the result misses a limit; after its table was shown.
        AlreadyRunning: another quantization or training has the accelerator.
        MlxbunError: as `core.quantize.run.run_quantize`.
        KeyboardInterrupt: it was stopped by Ctrl-C; what is written is kept.
    """
    recipe = _ready(read_fields(make_recipe, given, run.file), run, console)
    if run.dry_run:
        _show_plan(recipe, run, console)
        return
    try:
        with hold_lease(run.session.paths.lease_file, what="mlxbun quantize", on_wait=None):
            result = _quantize(recipe, run, console)
    except ProofFailed as missed:
        show_missed(cast("ProofTable", missed.table), console)
        raise
    show_result(result, recipe, console)
    if run.plot is not None:
        from commands.quantize.picture import draw

        draw(result.folder, run.plot, console)


def _ready(recipe: Recipe, run: Run, console: Console) -> Recipe:
    """Return the recipe with its width chosen, after all checks that need no weights."""
    settings, session = run.settings, run.session
    if recipe.model_id is None:
        raise UsageProblem("quantize needs a MODEL.", hint="`mlxbun ls` lists the models here.")
    if run.plot is not None:
        from commands.quantize.picture import check_plot

        check_plot(run.plot, recipe)
    ready = make_ready(
        recipe,
        find_host=lambda: find_host(settings, session.paths, session.environ),
        settings=settings,
        paths=session.paths,
    )
    if ready.note is not None:
        with shown_events(console) as show:
            show(Note(line=ready.note))
    return ready.recipe


def _show_plan(recipe: Recipe, run: Run, console: Console) -> None:
    from commands.quantize.dry import show_plan

    with shown_events(console) as on_event:
        plan = plan_quantize(
            recipe, **run.places, on_event=on_event, on_progress=console.quarters()
        )
    show_plan(plan, console)


def _quantize(recipe: Recipe, run: Run, console: Console) -> QuantizeResult:
    with Interrupts(_STOPPING, console.note) as interrupts, shown_events(console) as show:

        def hear(event: QuantizeEvent, /) -> None:
            if isinstance(event, Stage):
                interrupts.begin()
            show(event)

        try:
            return run_quantize(
                recipe,
                **run.places,
                on_event=hear,
                should_stop=interrupts.pressed,
                on_progress=console.quarters(),
            )
        except Cancelled:
            console.note(_KEPT)
            raise KeyboardInterrupt from None
