"""`mlxbun upload`: a model, an adapter or a data set to the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import repo_types
from commands._shared.options import JsonOption

if TYPE_CHECKING:
    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.upload.plan import UploadPlan, UploadRequest
    from core.upload.target import RepoType

_PATTERN = "GLOB"
_TYPES = ("model", "dataset")


def upload(
    context: typer.Context,
    path: Annotated[
        Path, typer.Argument(help="A folder: model, adapter, data set; or a file of data.")
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="ORG/NAME", help="The repository; made when missing.")
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--type",
            autocompletion=repo_types,
            metavar="model|dataset",
            help="Its type; else as the files look.",
        ),
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Make the repository private.")
    ] = False,
    revision: Annotated[
        str | None,
        typer.Option("--revision", metavar="BRANCH", help="Branch, else main; made when missing."),
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", metavar="TEXT", help="The commit's message.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include", metavar=_PATTERN, help="Take files that would be left out; repeatable."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar=_PATTERN, help="Leave files out; repeatable."),
    ] = None,
    no_card: Annotated[bool, typer.Option("--no-card", help="Write no model card.")] = False,
    write_card: Annotated[
        bool, typer.Option("--write-card", help="Write the card into the folder, too.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show files and card; open no network.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Upload to the Hugging Face Hub, sending only what it does not have.

    A card with what is known of the origin goes along; --json prints a line for each event.
    """
    session: Session = context.obj
    console = session.console(json=json)
    request = _request(path, to, kind, revision)
    request = _with_choices(
        request,
        private=private,
        message=message,
        include=include or [],
        exclude=exclude or [],
        card=not no_card,
        keep_card=write_card,
    )
    _run(request, session, console, dry_run=dry_run)


def _request(path: Path, to: str, kind: str | None, revision: str | None) -> UploadRequest:
    from core.upload.target import parse_target

    target = parse_target(to, revision)  # before anything heavy: most mistakes are made here
    wanted = _repo_type(kind)
    from core.upload.plan import UploadRequest

    return UploadRequest(source=path, target=target, wanted=wanted)


def _repo_type(kind: str | None) -> RepoType | None:
    from core.errors import UsageProblem

    if kind not in (None, *_TYPES):
        raise UsageProblem(
            f"There is no type {kind!r}.",
            hint="Write --type model (adapters are models) or --type dataset.",
        )
    return kind  # type: ignore[return-value]


def _with_choices(
    request: UploadRequest,
    *,
    private: bool,
    message: str | None,
    include: list[str],
    exclude: list[str],
    card: bool,
    keep_card: bool,
) -> UploadRequest:
    from dataclasses import replace

    from core.upload.belongs import Selection

    return replace(
        request,
        private=private,
        message=message,
        selection=Selection(include=tuple(include), exclude=tuple(exclude)),
        card=card,
        keep_card=keep_card,
    )


def _run(request: UploadRequest, session: Session, console: Console, *, dry_run: bool) -> None:
    from core.upload.plan import plan_upload

    if not dry_run:
        from core.upload.job import check_way

        check_way(session.paths, session.environ)
    plan = plan_upload(request, hub_cache=session.paths.hub_cache)
    if dry_run:
        from commands.upload.showing import show_plan

        show_plan(plan, console)
        return
    _upload(plan, session, console)


def _upload(plan: UploadPlan, session: Session, console: Console) -> None:
    from commands.upload.showing import done_event, shown_events
    from core.upload.job import upload as upload_plan

    with shown_events(console) as on_event:
        done = upload_plan(plan, paths=session.paths, environ=session.environ, on_event=on_event)
    if console.json_mode:
        console.event(done_event(done))
        return
    if not done.changed:
        console.note("Nothing was committed: the branch holds all of it already.")
    console.text(f"{done.url} {done.commit_url}\n")
