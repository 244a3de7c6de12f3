"""`mlxbun fuse`: make an adapter part of its model, in a new folder."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import adapters, folders, models
from commands._shared.options import JsonOption
from core.errors import MlxbunError, UsageProblem
from core.paths import expanded

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.registry.resolve import ModelRef
    from core.train.fuse import Fused


def fuse(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(autocompletion=models, help="A folder, a repo id, or a part of one.")
    ],
    adapter: Annotated[
        str | None,
        typer.Option(
            "--adapter",
            "--adapter-path",
            autocompletion=adapters,
            help="The adapter: a folder, or the name of one that `mlxbun adapters list` shows.",
            metavar="DIR",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            autocompletion=folders,
            help="The new model's folder; it must not be there.",
            metavar="DIR",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write a model with an adapter in its weights.

    Quantized models keep their bits and groups; what the adapter does not change stays the same
    to the last byte.
    """
    session: Session = context.obj
    console = session.console(json=json)
    if adapter is None or output is None:
        missing = "--adapter DIR" if adapter is None else "--output DIR"
        raise UsageProblem(f"fuse needs {missing}.")
    from core.engine.adapters import find_adapter
    from core.machine.compute import prepare_compute
    from core.registry.adapters import check_adapter
    from core.registry.resolve import resolve_model

    target = expanded(output)
    if target.exists():
        raise UsageProblem(f"{target} exists already.", hint="Choose a new folder.")
    folder = find_adapter(adapter, cache=session.paths.cache)
    base = resolve_model(
        model,
        hub_cache=session.paths.hub_cache,
        model_folders=session.settings().values.model_folders,
    )
    note = check_adapter(folder, model=base.folder, model_id=base.model_id, lora=True)
    if note is not None:
        console.note(note)
    # Before MLX is imported: where it has no backend, this says so.
    prepare_compute(
        blas="off", dequantize="off", cache=session.paths.cache, environ=session.environ
    )
    _show(_written(base, folder, target, console), base, folder, console)


def _written(base: ModelRef, adapter: Path, target: Path, console: Console) -> Fused:
    from core.train.fuse import fuse as fuse_folders
    from core.train.run import describe_fused

    try:
        with console.progress() as on_progress:
            done = fuse_folders(base.folder, adapter, target, on_progress=on_progress)
        describe_fused(target, base)
    except OSError as problem:
        raise MlxbunError(
            f"{target} cannot be written: {problem.strerror or problem}.",
            hint="Make room, or name another folder with --output.",
        ) from problem
    return done


def _show(done: Fused, base: ModelRef, adapter: Path, console: Console) -> None:
    if console.json_mode:
        console.json(
            {
                "model": base.model_id,
                "adapter": str(adapter),
                "output": str(done.folder),
                "layers": done.layers,
                "tensors_kept": done.tensors_kept,
                "written_anew": done.anew,
            }
        )
        return
    console.note(f"{done.layers} layers changed, {done.tensors_kept} tensors as they were")
    if done.anew:
        console.note("The files are in mlx-lm's layout: the model keeps its layers in another one.")
    console.text(f"{done.folder}\n")
    console.note(f"next: mlxbun serve {quote(str(done.folder))}")
