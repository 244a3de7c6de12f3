"""Runs as people and programs read them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from core.figures import machine_key
from core.units import format_number, format_seconds

if TYPE_CHECKING:
    from commands._shared.console import Console
    from core.figures import Figure, FigureKind, Run

_NAMES: dict[FigureKind, str] = {
    "prefill": "prefill",
    "decode": "decode",
    "ttft_cold": "TTFT, new prompt",
    "ttft_warm": "TTFT, same again",
}
_COLUMNS = {
    "name": "FIGURE",
    "size": "SIZE",
    "median": "MEDIAN",
    "quartiles": "QUARTILES",
    "row": "EACH ROW",
}


def show_run(run: Run, console: Console) -> None:
    """Show one run: its figures on stdout, what it ran on beside them."""
    if console.json_mode:
        console.json(run_as_json(run))
        return
    repeats = {len(figure.samples) for figure in run.figures}
    console.note(f"{run.model_id}, {run.settings.loaded_as}")
    blas = "" if run.settings.blas == "-" else f", {run.settings.blas}"
    console.note(f"{machine_key(run.machine)}{blas}")
    if not run.complete:
        console.note("Interrupted: these figures are partial.")
    console.table([_row(figure) for figure in run.figures], _COLUMNS)
    samples = f"{min(repeats)} to {max(repeats)}" if len(repeats) > 1 else str(max(repeats))
    console.note(f"samples of each figure: {samples}")


def run_as_json(run: Run) -> dict[str, Any]:
    """Return every field of a run."""
    machine = {"key": machine_key(run.machine), **asdict(run.machine)}
    figures = [{**asdict(figure), "per_row": figure.per_row} for figure in run.figures]
    return {**asdict(run), "machine": machine, "figures": figures}


def amount(figure: Figure, value: float) -> str:
    """Return a value of a figure with its unit: `276 tokens/s`, `470 ms`."""
    if figure.unit != "s":
        return f"{format_number(value)} {figure.unit}"
    return f"{format_number(1000 * value)} ms" if value < 0.9995 else format_seconds(value)


def bare(amount: str) -> str:
    """Return an amount without the unit that goes without saying: `276`, `470 ms`."""
    return amount.removesuffix(" tokens/s")


def _row(figure: Figure) -> dict[str, Any]:
    rows = figure.kind == "decode"
    unit = "row" if rows else "token"
    ends = (bare(amount(figure, figure.low)), bare(amount(figure, figure.high)))
    return {
        "name": _NAMES[figure.kind],
        "size": f"{figure.size} {unit}{'s' if figure.size > 1 else ''}",
        "median": amount(figure, figure.median),
        "quartiles": " to ".join(ends) if len(figure.samples) > 1 else None,
        "row": amount(figure, figure.per_row) if rows else None,
    }
