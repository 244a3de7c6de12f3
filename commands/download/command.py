"""`mlxbun download`: a model from the Hub, or a first one for somebody who has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.completion import downloads
from commands._shared.options import JsonOption, MemoryOption
from core.errors import UsageProblem
from core.units import format_bytes

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.download.job import DownloadRequest
    from core.download.plan import DownloadPlan

_STARTER = "starter"
_PATTERN = "GLOB"


def download(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            autocompletion=downloads, metavar="REPO[@REVISION]", help="What to fetch, or `starter`."
        ),
    ],
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include",
            metavar=_PATTERN,
            help="Fetch these files in place of the usual ones; repeatable.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar=_PATTERN, help="Leave these files out; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be fetched, and fetch nothing.")
    ] = False,
    memory_budget: MemoryOption = None,
    json: JsonOption = False,
) -> None:
    """Fetch a model into the Hugging Face cache, going on where an earlier call stopped.

    Weights for MLX, configs and tokenizers are taken; --json prints a line for each event.
    """
    session: Session = context.obj
    console = session.console(json=json)
    if name == _STARTER:
        if include or exclude or dry_run:
            raise UsageProblem(
                "The starter is fetched whole: it takes no --include, --exclude or --dry-run."
            )
        _fetch_starter(session, console, memory_budget)
        return
    from commands.download.showing import comforted

    with comforted(console):
        if memory_budget is not None:
            raise UsageProblem("--memory-budget chooses the size of the starter, of nothing else.")
        request = _request(name, include or [], exclude or [])
        if dry_run:
            _show_plan(request, session, console)
        else:
            _fetch(request, session, console)


def _request(name: str, include: list[str], exclude: list[str]) -> DownloadRequest:
    from core.download.choose import Choice
    from core.download.names import parse_name

    parsed = parse_name(name)  # before anything heavy: most mistakes are made here
    from core.download.job import DownloadRequest

    choice = Choice(include=tuple(include), exclude=tuple(exclude))
    return DownloadRequest(name=parsed, choice=choice)


def _show_plan(request: DownloadRequest, session: Session, console: Console) -> None:
    from commands.download.showing import plan_event
    from core.download.job import plan_download

    plan = plan_download(request, paths=session.paths, environ=session.environ)
    if console.json_mode:
        console.event(plan_event(plan))
        return
    rows = [
        {
            "file": file.name,
            "size": format_bytes(file.size),
            "here": "yes" if file.is_here else format_bytes(file.present) if file.present else "no",
        }
        for file in plan.files
    ]
    console.table(rows, {"file": "FILE", "size": "SIZE", "here": "HERE"})
    console.text(_sum(plan))


def _sum(plan: DownloadPlan) -> str:
    from commands.download.showing import count_files

    return (
        f"{count_files(plan)}, {format_bytes(plan.total_bytes)};"
        f" {format_bytes(plan.missing_bytes)} to fetch (commit {plan.commit[:12]})\n"
    )


def _fetch(request: DownloadRequest, session: Session, console: Console) -> None:
    from commands.download.showing import shown_events
    from core.download.job import download_repository

    with shown_events(console) as on_event:
        done = download_repository(
            request, paths=session.paths, environ=session.environ, on_event=on_event
        )
    size = done.plan.total_bytes
    record: dict[str, Any] = {
        "id": request.name.repo_id,
        "commit": done.plan.commit,
        "folder": str(done.plan.folder),
    }
    if console.json_mode:
        received = {"size_bytes": size, "received_bytes": done.received_bytes}
        console.event({"event": "done", **record, **received})
    else:
        console.record({**record, "size": format_bytes(size)})


def _fetch_starter(session: Session, console: Console, memory_budget: float | None) -> None:
    from core.download import fetch_starter
    from core.machine.compute import prepare_compute
    from core.registry.cache import snapshot_size

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
    record = {"id": starter.model_id, "folder": str(starter.folder)}
    if console.json_mode:
        console.event({"event": "done", **record, "size_bytes": size})
    else:
        console.record({**record, "size": format_bytes(size)})
