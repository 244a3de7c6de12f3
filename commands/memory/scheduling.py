"""`mlxbun memory` schedule and unschedule: a run once a day."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.options import JsonOption
from commands.memory.options import BudgetOption, ModelOption, VaultOption, opened
from commands.memory.sources import (
    ClaudeCodeOption,
    CodexOption,
    ExportsOption,
    NotesOption,
    SessionsOption,
)
from core.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from commands._shared.session import Session
    from core.memory.schedule import ScheduleStatus
    from core.memory.schedule_files import LastRun, Schedule


def schedule(
    context: typer.Context,
    at: Annotated[
        str, typer.Option("--at", help="Time of day, in local time.", metavar="HH:MM")
    ] = "03:00",
    model: ModelOption = None,
    budget: BudgetOption = None,
    sessions: SessionsOption = True,
    exports: ExportsOption = None,
    notes: NotesOption = None,
    claude_code: ClaudeCodeOption = False,
    codex: CodexOption = False,
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Run `memory synthesize` once a day, by launchd, systemd or cron.

    A run missed during sleep is made up later. It waits while a training or a
    quantization uses the accelerator; `mlxbun memory status` shows how the last one ended. The
    other options are those of `synthesize`, and hold for every run.
    """
    from core.memory.pipeline import SynthesisOptions
    from core.memory.schedule import install_schedule
    from core.memory.timers import Machine

    session: Session = context.obj
    console = session.console(json=json)
    root = opened(context, vault).root
    flags = {"--no-sessions": not sessions, "--claude-code": claude_code, "--codex": codex}
    arguments = (
        *_valued({"--model": model, "--budget": budget}),
        *(flag for flag, given in flags.items() if given),
        *_located("--export", exports),
        *_located("--notes", notes),
    )
    SynthesisOptions(sources=None, budget_minutes=budget)  # refuses what a run would refuse
    made = install_schedule(
        at,
        vault=root,
        paths=session.paths,
        machine=Machine.here(session.environ),
        arguments=arguments,
    )
    if json:
        console.json({"schedule": schedule_json(made)})
        return
    console.note(f"{made.service} runs `mlxbun memory synthesize` every day at {made.at}.")
    console.lines(made.installed)


def _valued(options: dict[str, object]) -> Iterator[str]:
    """Yield the options that were given, each with its value in one word."""
    return (f"{name}={value}" for name, value in options.items() if value is not None)


def _located(option: str, given: Sequence[Path] | None) -> Iterator[str]:
    """Yield an option for each path, made absolute: a service starts in another folder.

    Raises:
        NotFound: there is no such file or folder.
    """
    from core.paths import expanded

    for each in given or ():
        path = expanded(each).absolute()
        if not path.exists():
            raise NotFound(f"There is no {path} for {option}.", hint="Check the path.")
        yield f"{option}={path}"


def unschedule(context: typer.Context, json: JsonOption = False) -> None:
    """Remove the schedule."""
    from core.memory.schedule import remove_schedule
    from core.memory.timers import Machine

    session: Session = context.obj
    console = session.console(json=json)
    removed = remove_schedule(paths=session.paths, machine=Machine.here(session.environ))
    if json:
        console.json({"removed": list(removed)})
    elif removed:
        console.note("Removed:")
        console.lines(removed)
    else:
        console.note("There was no schedule.")


def schedule_json(made: Schedule) -> dict[str, Any]:
    """Return a schedule as a JSON object."""
    return {
        "at": made.at,
        "service": made.service,
        "vault": made.vault,
        "command": list(made.command),
        "installed": list(made.installed),
        "since": made.since,
    }


def status_json(found: ScheduleStatus) -> dict[str, Any]:
    """Return the schedule and its last run as a JSON object."""
    last = found.last
    return {
        "schedule": schedule_json(found.schedule) if found.schedule else None,
        "next_run": found.next,
        "last_run": _last_json(last) if last else None,
        "schedule_problem": found.problem or None,
    }


def status_record(found: ScheduleStatus) -> dict[str, Any]:
    """Return the same as lines."""
    record: dict[str, Any] = {"scheduled": None}
    if found.schedule is not None:
        record["scheduled"] = f"daily at {found.schedule.at}"
        if found.schedule.arguments:
            record["with"] = shlex.join(found.schedule.arguments)
    if found.next is not None:
        record["next run"] = found.next
    if found.last is not None:
        line = f"{found.last.outcome}, {found.last.started}"
        record["last run"] = f"{line}: {found.last.reason}" if found.last.reason else line
    if found.problem:
        record["problem"] = found.problem
    return record


def _last_json(last: LastRun) -> dict[str, Any]:
    fields = asdict(last)
    return {
        name: fields[name] or None if name in ("run", "commit") else fields[name]
        for name in ("started", "finished", "outcome", "reason", "run", "commit")
    }
