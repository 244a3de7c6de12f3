"""`mlxbun memory` init, status, open and doctor: the vault as a whole."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.completion import folders, pages
from commands._shared.options import JsonOption
from commands.memory.options import VaultOption, opened
from commands.memory.scheduling import status_json, status_record
from core.errors import MlxbunError
from core.units import counted

if TYPE_CHECKING:
    from commands._shared.session import Session
    from core.memory.finding import Finding
    from core.memory.opening import Memory
    from core.memory.status import VaultStatus


def init(
    context: typer.Context,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            autocompletion=folders,
            help="Import the Markdown notes of this folder as articles.",
            metavar="FOLDER",
        ),
    ] = None,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Set up the vault: its folders, its documentation and its git repository.

    In an existing vault, it adds what is missing and changes nothing else.
    """
    from core.memory.opening import vault_root
    from core.memory.setup import setup_vault
    from core.paths import expanded

    session: Session = context.obj
    console = session.console(json=json)
    result = setup_vault(
        vault_root(session.paths, vault),
        import_from=expanded(from_) if from_ else None,
        on_note=console.note,
    )
    if json:
        console.json(
            {
                "root": str(result.root),
                "created": list(result.created),
                "git_initialized": result.git_initialized,
                "already_set_up": result.already_set_up,
                "imported": list(result.imported),
            }
        )
        return
    console.lines([str(result.root)])
    if result.already_set_up and not result.created:
        console.note("The vault exists already; nothing was missing.")
    else:
        console.note(
            f"Created {counted(len(result.created), 'file or folder', 'files and folders')}."
        )
    if from_ is not None:
        console.note(f"Imported {counted(len(result.imported), 'note')}.")


def status(context: typer.Context, vault: VaultOption = None, json: JsonOption = False) -> None:
    """Show where the vault is, what it contains, and its schedule."""
    session: Session = context.obj
    console = session.console(json=json)
    from core.memory.reference_pages import is_outdated
    from core.memory.schedule import schedule_status
    from core.memory.status import vault_status
    from core.memory.timers import Machine

    memory = opened(context, vault)
    found = vault_status(memory.vault)
    waiting = _waiting(memory)
    planned = schedule_status(paths=session.paths, machine=Machine.here(session.environ))
    if json:
        more = {"reviews": waiting, "reference_outdated": is_outdated(memory.vault)}
        console.json(_status_json(found) | more | status_json(planned))
        return
    console.record(
        {
            "vault": str(found.root),
            "articles": found.articles,
            "reference": found.reference,
            "git": found.is_git,
            "latest": [each.article for each in found.recent],
        }
        | ({"to review": waiting} if waiting else {})
        | status_record(planned)
    )
    if is_outdated(memory.vault):
        console.note(
            "The pages in Reference belong to another version of mlxbun; "
            "`mlxbun memory init` updates them, as does the next synthesis."
        )


def _waiting(memory: Memory) -> list[str]:
    """Return the runs that wait for a review; none where git does not work."""
    from core.memory.review import waiting

    with suppress(MlxbunError):
        return [each.run for each in waiting(memory.git)]
    return []


def open_(
    context: typer.Context,
    article: Annotated[
        str | None,
        typer.Argument(autocompletion=pages, help="An article; default: the whole vault."),
    ] = None,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the path and open nothing.")
    ] = False,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Open the vault or an article in Obsidian, or else in the default program."""
    from commands.memory.opener import open_path

    session: Session = context.obj
    console = session.console(json=json)
    memory = opened(context, vault)
    path = memory.vault.root
    if article is not None:
        path = path / memory.vault.find(article)
    program = None if print_ else open_path(path, environ=session.environ)
    if json:
        console.json({"path": str(path), "opened_with": program})
    elif program is None:
        console.lines([str(path)])
    else:
        console.note(f"Opened {path} with {program}.")


def doctor(
    context: typer.Context,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if there are problems, for use in CI.")
    ] = False,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Check the vault: links, names, citations, quotes and uncommitted changes."""
    from core.memory.doctor import examine, is_sound

    session: Session = context.obj
    console = session.console(json=json)
    memory = opened(context, vault)
    findings = examine(memory.vault, git=memory.git, store=memory.store)
    if json:
        console.json({"findings": [asdict(each) for each in findings], "sound": is_sound(findings)})
    elif findings:
        console.lines(_finding_line(each) for each in findings)
    else:
        console.note("No problems found.")
    if strict and not is_sound(findings):
        problems = sum(each.severity != "note" for each in findings)
        raise MlxbunError(f"The vault has {counted(problems, 'problem')}.")


def _status_json(found: VaultStatus) -> dict[str, Any]:
    return {
        "root": str(found.root),
        "articles": found.articles,
        "reference": found.reference,
        "git": found.is_git,
        "recent": [
            {
                "article": each.article,
                "modified": datetime.fromtimestamp(each.modified, UTC).isoformat(),
            }
            for each in found.recent
        ],
    }


def _finding_line(found: Finding) -> str:
    place = found.path if found.line is None else f"{found.path}:{found.line}"
    return f"{found.severity}: {f'{place}: ' if place else ''}{found.message}"
