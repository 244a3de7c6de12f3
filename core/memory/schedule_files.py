"""The schedule and the result of its last run, as files in `MLXBUN_HOME`."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from core.errors import UsageProblem
from core.paths import atomic_write
from core.servers import process_born

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.paths import Paths

SCHEDULED_FLAG = "--scheduled"
"""Hidden option of `mlxbun memory synthesize` with which the services start it."""
_LARGEST_FILE = 64 * 1024

RunOutcome = Literal["running", "done", "unchanged", "skipped", "failed", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule that is installed."""

    at: str
    """Local time, `HH:MM`."""
    service: str
    """What starts it: `launchd`, `systemd` or `cron`."""
    label: str
    """Its name there."""
    vault: str
    """The vault that it writes."""
    command: tuple[str, ...]
    """What is started."""
    installed: tuple[str, ...]
    """Files that were written, or the crontab line."""
    since: str
    """When it was installed, ISO 8601 with a time zone."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Further options of `memory synthesize`."""
        flag = SCHEDULED_FLAG
        return self.command[self.command.index(flag) + 1 :] if flag in self.command else ()


@dataclass(frozen=True, kw_only=True)
class LastRun:
    """How the last scheduled run ended."""

    started: str
    """When it began, ISO 8601 with a time zone."""
    finished: str | None
    """When it ended; None: it runs, or was interrupted."""
    outcome: RunOutcome
    """`unchanged`: there was nothing new; `interrupted`: its process is gone without a result."""
    reason: str
    """Why it was skipped or failed, or its result; one sentence."""
    run: str = ""
    """Id of the run; empty if nothing was written."""
    commit: str = ""
    """The commit; empty if nothing was written."""
    pid: int = 0
    """Its process."""
    born: str = ""
    """When that started, as `core.servers.process_born` has it."""


def read_schedule(paths: Paths) -> Schedule | None:
    """Return the schedule that is installed; None: there is none, or its file is damaged."""
    raw = _read(schedule_file(paths))
    try:
        schedule = Schedule(**{**raw, **_tuples(raw, "command", "installed")})
        time_of_day(schedule.at)
        return schedule if datetime.fromisoformat(schedule.since).tzinfo else None
    except (TypeError, ValueError, AttributeError, UsageProblem):
        return None


def read_last_run(paths: Paths) -> LastRun | None:
    """Return the result of the last scheduled run; None: there is none, or its file is damaged."""
    try:
        run = LastRun(**_read(_result_file(paths)))
        whole = datetime.fromisoformat(run.started).tzinfo and isinstance(run.pid, int)
    except (TypeError, ValueError):
        return None
    if not whole or run.outcome not in get_args(RunOutcome):
        return None
    if run.outcome == "running" and process_born(run.pid) != run.born:
        return replace(run, outcome="interrupted", reason="Its process ended early.")
    return run


def schedule_file(paths: Paths) -> Path:
    """Return where the schedule is kept."""
    return paths.home / "memory-schedule.json"


def _result_file(paths: Paths) -> Path:
    return paths.home / "memory-last-run.json"


def write_schedule(paths: Paths, schedule: Schedule) -> None:
    """Keep the schedule that is installed."""
    _write(schedule_file(paths), schedule)


def write_last_run(paths: Paths, run: LastRun) -> None:
    """Keep the result of a scheduled run."""
    _write(_result_file(paths), run)


def _write(path: Path, value: Schedule | LastRun) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(asdict(value), indent=2, ensure_ascii=False).encode() + b"\n")


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(_LARGEST_FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _tuples(raw: Mapping[str, Any], *names: str) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(str(item) for item in cast("list[Any]", raw[name]))
        for name in names
        if name in raw
    }


def stamp(moment: datetime) -> str:
    """Return a moment as ISO 8601 with the local time zone."""
    return moment.astimezone().isoformat(timespec="seconds")


def time_of_day(at: str) -> tuple[int, int]:
    """Return hour and minute of `HH:MM`.

    Raises:
        UsageProblem: it is not a time of day.
    """
    match = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})", at.strip())
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise UsageProblem(f"--at must be a time of day such as 03:00, not {at!r}.")
    return int(match[1]), int(match[2])
