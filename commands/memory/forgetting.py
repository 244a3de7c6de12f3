"""`mlxbun memory forget`: a plan is shown, and after a confirmation carried out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.completion import articles
from commands._shared.options import JsonOption
from commands.memory.options import DryRunOption, VaultOption, YesOption, opened
from core.memory.plain import shortened
from core.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from commands._shared.console import Console
    from commands._shared.session import Session
    from core.memory.forget import ForgetPlan
    from core.memory.opening import Memory
    from core.memory.purge import Purged

_QUESTION = "Forget this? [y/N]"
_PURGE_QUESTION = "Forget this, and rewrite the git history without it? [y/N]"
_LONGEST = 160  # characters of a text that is shown


def forget(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TEXT|ARTICLE", autocompletion=articles, help="Words, or an article."
        ),
    ],
    source: Annotated[
        bool,
        typer.Option("--source", help="Also forget the messages it comes from, and keep it out."),
    ] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Also rewrite the git history without it.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Remove a text or an article from the vault.

    With --source the messages behind it are removed too, from caches and the index, and later runs
    do not bring it back. --purge also removes it from the git history; what remains elsewhere is
    listed. The command first shows what it would remove, and asks for confirmation.
    """
    from core.memory.forget import plan_forget
    from core.memory.purge import refuse_purge

    session: Session = context.obj
    console = session.console(json=json)
    memory = opened(context, vault)
    if purge:
        refuse_purge(memory.git)
    plan = plan_forget(memory, target, source=source, history=purge)
    if not json:
        console.lines(_plan_lines(plan))
    done = not dry_run and (yes or _confirmed(console, purge=purge))
    result = _carry_out(memory, plan, console, purge=purge) if done else None
    if json:
        console.json(_as_json(plan, result))
    elif result is None:
        hint = "" if dry_run else " The same command with --yes does it."
        console.note(f"Nothing was removed.{hint}")
    else:
        _report(result, console)


class _Result:
    """What was done."""

    def __init__(self, commit: str | None, purged: Purged | None, elsewhere: tuple[str, ...]):
        self.commit = commit
        self.purged = purged
        self.elsewhere = elsewhere


def _carry_out(memory: Memory, plan: ForgetPlan, console: Console, *, purge: bool) -> _Result:
    from core.memory.forget import forget as run
    from core.memory.forget import remains_elsewhere
    from core.memory.purge import purge as rewrite

    commit = run(memory, plan)
    purged = None
    if purge:
        with console.progress() as show:
            purged = rewrite(
                memory.git,
                plan,
                on_progress=lambda done, total: show(
                    Progress(task="rewriting history", done=done, total=total, unit="commits")
                ),
            )
    more = purged.remaining if purged else ()
    elsewhere = (*more, *remains_elsewhere(plan, purged=purge))
    return _Result(commit, purged, elsewhere)


def _confirmed(console: Console, *, purge: bool) -> bool:
    """Ask at a terminal; elsewhere the answer is no."""
    if console.json_mode or sys.stdin is None or not sys.stdin.isatty():
        return False
    console.reply(_PURGE_QUESTION if purge else _QUESTION)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _plan_lines(plan: ForgetPlan) -> Iterator[str]:
    for file in plan.files:
        yield f"{file.path}{' (the whole file)' if file.after is None else ''}"
        yield from (f"  - {shortened(text, _LONGEST)}" for text in file.removed)
    for turn in plan.turns:
        yield f"{turn.source}#{turn.message}"
        if turn.excerpt:
            yield f"  - {shortened(turn.excerpt, _LONGEST)}"


def _report(result: _Result, console: Console) -> None:
    if result.commit is not None:
        console.note(f"Removed in commit {result.commit[:10]}.")
    if result.purged is not None:
        console.note(f"Rewrote {result.purged.commits} commits.")
    for line in result.elsewhere:
        console.note(line)


def _as_json(plan: ForgetPlan, result: _Result | None) -> dict[str, Any]:
    purged = result.purged if result else None
    return plan.as_json() | {
        "done": result is not None,
        "commit": result.commit if result else None,
        "rewritten_commits": purged.commits if purged else None,
        "elsewhere": list(result.elsewhere) if result else [],
    }
