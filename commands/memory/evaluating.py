"""`mlxbun memory eval`: how well a model writes articles, measured on a corpus with known facts."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.completion import folders, memory_eval_models, memory_parts
from commands._shared.interrupts import Interrupts
from commands._shared.options import JsonOption
from commands.memory.showing import shown_events
from core.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.memory.asking import Model
    from core.memory.evals.labels import Part

_STOPPING = "Stopping at the next step; Ctrl-C again stops at once."


def evaluate(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            autocompletion=memory_eval_models,
            help="A model, or `oracle`, `noisy` or `rules`, which need none.",
        ),
    ] = None,
    part: Annotated[
        str,
        typer.Option(
            "--part", autocompletion=memory_parts, help="Part of the corpus.", metavar="PART"
        ),
    ] = "project",
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            autocompletion=folders,
            help="Keep the vault and its caches in this new folder.",
            metavar="DIR",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure how well a model writes articles.

    Conversations with known facts go into a vault of their own; what stands in it afterwards is
    compared with what should. Your own vault is not touched.
    """
    from core.memory.asking import Cancelled
    from core.memory.evals.run import run_eval

    session: Session = context.obj
    console = session.console(json=json)
    chosen = _part(part)
    with (
        Interrupts(_STOPPING, console.note) as interrupts,
        _workdir(keep) as workdir,
        shown_events(console) as on_event,
    ):
        interrupts.begin()
        try:
            report = run_eval(
                lambda: _open(model, chosen, session, console),
                part=chosen,
                workdir=workdir,
                on_event=on_event,
                cancelled=interrupts.pressed,
            )
        except Cancelled:
            raise KeyboardInterrupt from None
    body = report.as_json() | {"vault": report.vault if keep else None}
    if json:
        console.event({"event": "done", **body})
    else:
        console.record({name.replace("_", " "): _shown(value) for name, value in body.items()})


def _shown(value: Any) -> Any:
    """Return a share as `19 of 26 (73%)`, and anything else as it is."""
    if isinstance(value, dict) and {"good", "total", "value"} <= value.keys():
        return f"{value['good']} of {value['total']} ({value['value']:.0%})"
    return value


def _part(part: str) -> Part:
    from core.memory.evals.labels import PARTS

    for known in PARTS:
        if part == known:
            return known
    raise UsageProblem(f"--part must be one of {', '.join(PARTS)}, not {part!r}.")


@contextmanager
def _workdir(keep: Path | None) -> Iterator[Path]:
    """Yield the folder of the run; one that is not to be kept is deleted."""
    if keep is not None:
        from core.paths import expanded

        yield expanded(keep).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="mlxbun-memory-eval-") as folder:
        yield Path(folder)


def _open(name: str | None, part: Part, session: Session, console: Console) -> Model:
    from core.memory.evals.run import built_in_model
    from core.memory.local_model import open_model

    if name is not None and (built_in := built_in_model(name, part)) is not None:
        return built_in
    return open_model(
        name,
        settings=session.settings().values,
        paths=session.paths,
        environ=session.environ,
        on_progress=console.quarters(),
        on_note=console.note,
    )
