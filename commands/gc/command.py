"""The command: a plan is shown, and with `--yes` carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from commands._shared.completion import repositories
from commands._shared.options import JsonOption
from core.errors import MlxbunError, UsageProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.gc.execute import Result
    from core.gc.plan import Plan
    from core.gc.wishes import Wishes


def gc(
    context: typer.Context,
    repository: Annotated[
        str | None,
        typer.Argument(
            autocompletion=repositories,
            metavar="REPO",
            help="Only this repository, or a part of its name.",
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="Only what was not used for so long: 12h, 30d, 2w."
        ),
    ] = None,
    keep: Annotated[
        int,
        typer.Option(
            "--keep", min=0, metavar="N", help="Superseded snapshots that stay, the newest."
        ),
    ] = 0,
    unique: Annotated[
        bool,
        typer.Option("--unique", help="Also snapshots with files that no other one has."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete what is shown.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what nobody needs in the Hugging Face cache; with --yes, delete it.

    Superseded snapshots, orphaned blobs, incomplete downloads, unused locks, mlxbun's own remains.
    """
    session: Session = context.obj
    console = session.console(json=json)
    wishes = _wishes(repository, older_than, keep, unique=unique)
    folders = session.settings().values.model_folders
    plan = _plan(session, folders, wishes)
    if not json:
        _show_plan(plan, console)
    results = _delete(plan, session, folders, console) if yes else None
    if json:
        from commands.gc.plain import as_json

        console.json(as_json(plan, results))
    elif plan.items and results is None:
        console.note("Nothing was deleted. The same command with --yes deletes it.")
    _raise_failures(results or ())


def _wishes(repository: str | None, older_than: str | None, keep: int, *, unique: bool) -> Wishes:
    from core.gc.wishes import Wishes, parse_age

    try:
        age = None if older_than is None else parse_age(older_than)
    except ValueError:
        raise UsageProblem(
            f"--older-than must be an age such as 12h, 30d or 2w, not {older_than!r}."
        ) from None
    return Wishes(repository=repository, older_than=age, keep=keep, unique=unique)


def _plan(session: Session, folders: Sequence[str], wishes: Wishes) -> Plan:
    import time

    from core.gc.plan import make_plan
    from core.gc.survey import survey_cache

    return make_plan(survey_cache(session.paths, folders), wishes, now=time.time())


def _show_plan(plan: Plan, console: Console) -> None:
    import time

    from commands._shared.listing import lay_out
    from commands.gc.table import COLUMNS, kept_lines, rows_for, sum_of

    if plan.items:
        rows = list(rows_for(plan.items, now=time.time(), piped=console.width is None))
        lines = lay_out(COLUMNS, rows, width=console.width, styled=console.styled)
        console.text("\n".join(lines) + "\n")
    for line in (sum_of(plan), *kept_lines(plan)):
        console.note(line)


def _delete(plan: Plan, session: Session, folders: Sequence[str], console: Console) -> list[Result]:
    from core.gc.execute import execute
    from core.units import format_bytes

    results: list[Result] = []
    try:
        for result in execute(plan, paths=session.paths, model_folders=folders):
            results.append(result)
            if not console.json_mode:
                _show_mishaps(result, console)
    finally:  # after Ctrl-C, too
        if results and not console.json_mode:
            console.note(f"Freed {format_bytes(sum(result.bytes for result in results))}.")
    return results


def _show_mishaps(result: Result, console: Console) -> None:
    from commands.gc.table import failed_lines, skipped_lines

    for line in skipped_lines(result):
        console.note(line)
    for line in failed_lines(result):
        console.reply(line)


def _raise_failures(results: Sequence[Result]) -> None:
    """End with a code that tells when something could not be deleted.

    Raises:
        MlxbunError: so it was.
    """
    failed = sum(len(result.failed) for result in results)
    if failed:
        things = "1 thing" if failed == 1 else f"{failed} things"
        raise MlxbunError(
            f"{things} could not be deleted.",
            hint="See whom the files and their folders belong to; what went is gone for good.",
        )
