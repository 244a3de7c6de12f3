"""`mlxbun download starter`: a first model for somebody who has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.options import JsonOption, MemoryOption
from core.errors import UsageProblem
from core.units import format_bytes

if TYPE_CHECKING:
    from commands._shared.session import Session


def download(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What to fetch: starter.")],
    memory_budget: MemoryOption = None,
    json: JsonOption = False,
) -> None:
    """Fetch the starter model into the Hugging Face cache, unless it is there."""
    if name != "starter":
        raise UsageProblem(
            f"mlxbun download fetches only 'starter' so far, not {name!r}.",
            hint="Fetch other models with `hf download`; mlxbun finds them in the same cache.",
        )
    from core.download import fetch_starter
    from core.machine.compute import prepare_compute
    from core.registry.cache import snapshot_size

    session: Session = context.obj
    console = session.console(json=json)
    settings = session.settings(memory_budget=memory_budget).values
    # The plan is asked only for the budget and the device, neither of which a BLAS changes.
    plan = prepare_compute(
        blas="off", dequantize="auto", cache=session.paths.cache, environ=session.environ
    )
    with console.progress() as on_progress:
        starter = fetch_starter(
            paths=session.paths,
            environ=session.environ,
            memory_budget_bytes=plan.budget_bytes(settings.memory_budget, None),
            has_gpu=plan.machine.backend != "cpu",
            on_progress=on_progress,
            on_note=console.note,
        )
    size = snapshot_size(starter.folder)
    console.record(
        {
            "id": starter.model_id,
            "folder": str(starter.folder),
            "size": format_bytes(size),
            **({"size_bytes": size} if json else {}),
        }
    )
