"""Output of a quantization: a progress bar, log lines, or NDJSON."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Any

from commands._shared.proof import show_proof
from core.quantize.events import Note, Stage
from core.quantize.plain import result_as_json
from core.registry.files import printable
from core.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from commands._shared.console import Console
    from core.evals.table import ProofTable
    from core.quantize.events import OnEvent, QuantizeEvent
    from core.quantize.recipe import Recipe
    from core.quantize.run import QuantizeResult

_LINE_SECONDS = 2.0  # between two lines of a log
_BAR = 24
_SHOWN = 20  # layers that stay
_LEAST_SHARE = 0.02  # of the work, before the rest is worth a guess


@contextmanager
def shown_events(console: Console) -> Iterator[OnEvent]:
    """Yield what shows the events of the quantization in the block."""
    if console.json_mode:
        yield lambda event: console.event(event_line(event))
        return
    with console.live() as draw:
        yield _Display(console, draw) if draw else _Lines(console)


def event_line(event: QuantizeEvent) -> dict[str, Any]:
    """Return an event as a line of NDJSON."""
    return {"event": type(event).__name__.lower(), **asdict(event)}


def show_result(result: QuantizeResult, recipe: Recipe, console: Console) -> None:
    """Show the result of a quantization, its proof, and the next command."""
    if console.json_mode:
        console.event({"event": "done", **result_as_json(result)})
        return
    if result.table is not None:
        show_proof(result.table, console)
        console.text("\n")
    console.record(dict(_facts(result, recipe)))
    _show_kept(result, console)
    name = result.repo_id or str(result.folder)
    console.note(f"next: mlxbun serve {quote(name)}")


def show_missed(table: ProofTable, console: Console) -> None:
    """Show what was measured of a model that misses a limit and is not kept."""
    if console.json_mode:
        from core.evals.record import table_as_json

        console.event({"event": "proof", "table": table_as_json(table)})
        return
    show_proof(table, console)


def _facts(result: QuantizeResult, recipe: Recipe) -> Iterator[tuple[str, Any]]:
    yield "model", result.repo_id or printable(str(result.folder), 4096)
    before = f" ({format_bytes(result.source_bytes)} before)" if result.source_bytes else ""
    yield "weights", f"{format_bytes(result.weights_bytes)}{before}"
    yield "bits per weight", f"{result.bits_per_weight:.3f}"
    if result.uniform_instead:
        yield "format", "uniform: mixed precision was not better at this size"
    if result.requantized is not None:
        yield "source", f"already quantized ({result.requantized}); its loss is included"
    if result.table is None and not recipe.dequantize and not recipe.proof:
        yield "proof", "not measured (--no-proof)"


def _show_kept(result: QuantizeResult, console: Console) -> None:
    """List the layers that could be quantized and are not."""
    if not result.kept:
        return
    console.text("\n")
    rows = [{"layer": layer, "why": reason} for layer, reason in result.kept]
    console.table(rows[:_SHOWN], {"layer": "NOT QUANTIZED", "why": "WHY"})
    if len(rows) > _SHOWN:
        console.text(f"and {len(rows) - _SHOWN} more\n")


class _Lines:
    """Lines for a log: notes, new stages, and progress every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = float("-inf")
        self._stage = ""

    def __call__(self, event: QuantizeEvent, /) -> None:
        if isinstance(event, Note):
            self._console.note(event.line)
            return
        now = time.monotonic()
        if event.stage == self._stage and now - self._last < _LINE_SECONDS:
            return
        self._stage, self._last = event.stage, now
        self._console.note(f"{event.progress:.0%} {event.message}")


class _Display:
    """A bar at the bottom of a terminal with the time that is left; notes scroll above."""

    def __init__(
        self,
        console: Console,
        draw: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._draw = draw
        self._clock = clock
        self._first: tuple[float, float] | None = None

    def __call__(self, event: QuantizeEvent, /) -> None:
        if isinstance(event, Note):
            self._console.note(event.line)
            return
        done = min(max(event.progress, 0.0), 1.0)
        bar = "█" * round(_BAR * done) + "░" * (_BAR - round(_BAR * done))
        self._draw(f"{event.message}\n{bar}  {done:.0%}{self._left(event)}")

    def _left(self, event: Stage) -> str:
        """Return how long the rest takes at the pace so far; a resumed run begins in the middle."""
        now = self._clock()
        if self._first is None:
            self._first = now, event.progress
        begun, before = self._first
        share = event.progress - before
        if share < _LEAST_SHARE or event.progress >= 1:
            return ""
        left = (now - begun) / share * (1 - event.progress)
        return f"  about {format_seconds(left)} left"
