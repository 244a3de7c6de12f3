"""`mlxbun memory` schedule and unschedule: a run once a day."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands._shared.options import JsonOption
from commands.memory.options import VaultOption, opened

if TYPE_CHECKING:
    from commands._shared.session import Session
    from core.memory.schedule import ScheduleStatus
    from core.memory.schedule_files import LastRun, Schedule


def schedule(
    context: typer.Context,
    at: Annotated[
        str, typer.Option("--at", help="Time of day, in local time.", metavar="HH:MM")
    ] = "03:00",
    vault: VaultOption = None,
    json: JsonOption = False,
) -> None:
    """Run `memory synthesize` once a day, by launchd, systemd or cron.

    A run that the machine slept through is made up for. It waits while a training or a
    quantization uses the accelerator; `mlxbun memory status` shows how the last one ended.
    """
    from core.memory.schedule import install_schedule
    from core.memory.timers import Machine

    session: Session = context.obj
    console = session.console(json=json)
    root = opened(context, vault).root
    made = install_schedule(
        at, vault=root, paths=session.paths, machine=Machine.here(session.environ)
    )
    if json:
        console.json({"schedule": schedule_json(made)})
        return
    console.note(f"{made.service} runs `mlxbun memory synthesize` every day at {made.at}.")
    console.lines(made.installed)


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
    """Return a schedule as JSON has it."""
    return {
        "at": made.at,
        "service": made.service,
        "vault": made.vault,
        "command": list(made.command),
        "installed": list(made.installed),
        "since": made.since,
    }


def status_json(found: ScheduleStatus) -> dict[str, Any]:
    """Return the schedule and its last run as JSON has them."""
    last = found.last
    return {
        "schedule": schedule_json(found.schedule) if found.schedule else None,
        "next_run": found.next,
        "last_run": _last_json(last) if last else None,
        "schedule_problem": found.problem or None,
    }


def status_record(found: ScheduleStatus) -> dict[str, Any]:
    """Return the same as lines."""
    record: dict[str, Any] = {
        "scheduled": f"daily at {found.schedule.at}" if found.schedule else None
    }
    if found.next is not None:
        record["next run"] = found.next
    if found.last is not None:
        told = f"{found.last.outcome}, {found.last.started}"
        record["last run"] = f"{told}: {found.last.reason}" if found.last.reason else told
    if found.problem:
        record["problem"] = found.problem
    return record


def _last_json(last: LastRun) -> dict[str, Any]:
    told = asdict(last)
    return {
        name: told[name] or None if name in ("run", "commit") else told[name]
        for name in ("started", "finished", "outcome", "reason", "run", "commit")
    }
