"""`mlxbun bench history`: earlier runs, one a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from commands.bench.show import amount, bare, run_as_json
from core.figures import FigureStore, machine_key
from core.paths import expanded

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.figures import Figure, FigureKind, Run

_COLUMNS = {
    "run": "RUN",
    "when": "WHEN (UTC)",
    "model": "MODEL",
    "loaded_as": "WEIGHTS",
    "prefill": "PREFILL",
    "decode": "DECODE",
    "together": "TOGETHER",
    "cold": "TTFT",
    "warm": "AGAIN",
}
# Of several prompt lengths, the one nearest to this stands for the run.
_TYPICAL_PROMPT = 512


def show_history(model: str | None, limit: int, *, session: Session, console: Console) -> None:
    """Show the newest runs.

    Args:
        model: a model id, a part of one, or a folder; None: of all models.
        limit: most runs to show.
        session: where the store lies.
        console: the output.
    """
    store = FigureStore(session.paths.figures_file, on_note=console.note)
    runs = store.runs(_model_id(model), limit)
    if console.json_mode:
        console.json({"runs": [run_as_json(run) for run in runs]})
        return
    if not runs:
        console.note(f"No run of {model} was kept yet." if model else "No run was kept yet.")
        console.note("  `mlxbun bench` measures and keeps one.")
        return
    several = len({machine_key(run.machine) for run in runs}) > 1
    partial = not all(run.complete for run in runs)
    more = {"machine": "MACHINE"} if several else {}
    console.table([_row(run) for run in runs], _COLUMNS | more | ({"note": ""} if partial else {}))


def _model_id(model: str | None) -> str | None:
    """Return what a model is called in the store: a folder goes by its name."""
    if model and (model.startswith(("/", "./", "../", "~")) or model in (".", "..")):
        return expanded(model).resolve().name
    return model


def _row(run: Run) -> dict[str, Any]:
    rows = sorted(figure.size for figure in run.figures if figure.kind == "decode")
    return {
        "run": run.run_id,
        "when": run.measured_at[:16].replace("T", " "),
        "model": run.model_id,
        "loaded_as": run.settings.loaded_as,
        "prefill": _prompt_cell(run, "prefill"),
        "decode": _decode_cell(run, rows[:1]),
        "together": _decode_cell(run, rows[-1:]),
        "cold": _prompt_cell(run, "ttft_cold"),
        "warm": _prompt_cell(run, "ttft_warm"),
        "machine": machine_key(run.machine),
        "note": None if run.complete else "partial",
    }


def _prompt_cell(run: Run, kind: FigureKind) -> str | None:
    figures = [figure for figure in run.figures if figure.kind == kind]
    if not figures:
        return None
    return _cell(min(figures, key=lambda figure: abs(figure.size - _TYPICAL_PROMPT)))


def _decode_cell(run: Run, rows: list[int]) -> str | None:
    figure = run.figure("decode", rows[0]) if rows else None
    return _cell(figure) if figure else None


def _cell(figure: Figure) -> str:
    return f"{bare(amount(figure, figure.median))} ({figure.size})"
