"""`mlxbun import`: convert a GGUF file to an MLX model."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.completion import folders, gguf_files, import_types, import_widths
from commands._shared.options import JsonOption
from core.errors import MlxbunError, NotFound, UsageProblem
from core.paths import expanded
from core.units import format_bytes

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.download.gguf_import import Imported
    from core.registry.gguf import Prepared, Wishes


def import_gguf(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            autocompletion=gguf_files,
            help="The GGUF file; of a split model, any of its files.",
            metavar="FILE.gguf",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            "--name", help="Name in the cache [local/ and the file name].", metavar="ORG/NAME"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            autocompletion=folders,
            help="Write to a new folder instead of the Hugging Face cache.",
            metavar="DIR",
        ),
    ] = None,
    dequantize: Annotated[
        bool, typer.Option("--dequantize", help="Convert all weights to 16 bits.")
    ] = False,
    requantize: Annotated[
        int | None,
        typer.Option(
            "--requantize",
            autocompletion=import_widths,
            help="Bits for quantized weights that MLX cannot keep unchanged.",
            metavar="BITS",
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            autocompletion=import_types,
            help="Type of unquantized weights: float16 or bfloat16.",
            metavar="TYPE",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan; write nothing.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Convert a GGUF file to an MLX model.

    Weights are kept where MLX has the same format. Others are converted to 16 bits, or requantized
    with --requantize. The result for each type of weights is listed.
    """
    session: Session = context.obj
    console = session.console(json=json)
    wishes = _wishes(dequantize=dequantize, requantize=requantize, dtype=dtype)
    if name is not None and output is not None:
        raise UsageProblem("--name and --output cannot be combined.")
    source = expanded(file)
    if not source.is_file():
        raise NotFound(f"No such file: {source}.", hint="Give the path of a GGUF file.")
    from core.download.gguf_import import check_place, import_name
    from core.registry.gguf import prepare

    target = None if output is None else expanded(output)
    repo_id = import_name(source, name)
    if target is None:
        check_place(repo_id, hub_cache=session.paths.hub_cache)
    elif target.exists():
        raise UsageProblem(f"{target} exists already.", hint="Choose a new folder.")
    if wishes.requantize is not None:
        _prepare_mlx(session)
    prepared = prepare(source, wishes)
    if not json:
        _tell(prepared, console)
    done = None
    if not dry_run:
        done = _written(prepared, wishes, repo_id, target, session, console)
    _show(prepared, done, target or Path(repo_id), console)


def _wishes(*, dequantize: bool, requantize: int | None, dtype: str | None) -> Wishes:
    from core.registry.gguf import Wishes

    if dequantize and requantize is not None:
        raise UsageProblem("--dequantize and --requantize cannot be combined.")
    if requantize is not None:
        from core.quantize.form import checked_form

        checked_form(bits=requantize, group_size=None)
    if dtype not in (None, "float16", "bfloat16"):
        raise UsageProblem(f"--dtype must be float16 or bfloat16, not {dtype!r:.40}.")
    return Wishes(dequantize=dequantize, requantize=requantize, dtype=dtype)


def _prepare_mlx(session: Session) -> None:
    """Make the compute plan before MLX is imported; it reports a missing backend."""
    from core.machine.compute import prepare_compute

    prepare_compute(
        blas="off", dequantize="off", cache=session.paths.cache, environ=session.environ
    )


def _written(
    prepared: Prepared,
    wishes: Wishes,
    repo_id: str,
    target: Path | None,
    session: Session,
    console: Console,
) -> Imported:
    from core.download.gguf_import import import_into_cache, import_into_folder

    hub_cache = session.paths.hub_cache
    try:
        with console.progress() as on_progress:
            if target is not None:
                return import_into_folder(prepared, wishes, target=target, on_progress=on_progress)
            return import_into_cache(
                prepared, wishes, repo_id=repo_id, hub_cache=hub_cache, on_progress=on_progress
            )
    except OSError as problem:
        raise MlxbunError(
            f"Could not write the model to {target or hub_cache}: {problem.strerror or problem}.",
            hint="Nothing was kept. Free some space, or choose another folder with --output.",
        ) from problem


def _tell(prepared: Prepared, console: Console) -> None:
    """List what happens to each type of weights."""
    for found in prepared.outcomes:
        plural = "tensor" if found.tensors == 1 else "tensors"
        size = format_bytes(found.size_bytes)
        console.note(f"{found.kind}: {found.tensors} {plural} as {found.stored}, {size}")
        if found.reason != "kept":
            console.note(f"  {found.reason}")
    for note in prepared.notes:
        console.note(note)


def _show(prepared: Prepared, done: Imported | None, place: Path, console: Console) -> None:
    name = done.name if done else str(place)
    if console.json_mode:
        document: dict[str, Any] = {
            "file": str(prepared.gguf.path),
            "model": name,
            "folder": str(done.folder) if done else None,
            "model_type": prepared.model_type,
            "size_bytes": prepared.size,
            "tensors": [vars(found) for found in prepared.outcomes],
            "notes": list(prepared.notes),
            "dry_run": done is None,
        }
        console.json(document)
        return
    if done is None:
        console.note(f"would use {format_bytes(prepared.size)} of disk space; nothing was written")
    console.text(f"{name}\n")
    if done is not None:
        console.note(f"next: mlxbun serve {quote(name)}")
