"""`memory synthesize` once a day: installing the schedule, and what a scheduled run does.

A system service (`core.memory.timers`) starts `mlxbun memory synthesize --scheduled`, maybe more
often than wanted: after waking, at login, every hour. `run_scheduled` decides whether a run is due,
waits for the accelerator and keeps the result for `mlxbun memory status`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import AlreadyRunning, MlxbunError, UsageProblem
from core.jobs.lease import holder_words, try_lease
from core.memory.asking import Cancelled
from core.memory.schedule_files import (
    SCHEDULED_FLAG,
    LastRun,
    RunOutcome,
    Schedule,
    read_last_run,
    read_schedule,
    schedule_file,
    stamp,
    time_of_day,
    write_last_run,
    write_schedule,
)
from core.memory.timers import Entry, Machine, choose_timer, timer_of
from core.servers import process_born

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from core.memory.events import SynthesisSummary
    from core.paths import Paths

LEASE_WAIT_SECONDS = 2 * 3600.0
"""How long a scheduled run waits for the accelerator before it is skipped."""
_POLL_SECONDS = 1.0
_CARRIED = (
    "MLXBUN_HOME",
    "MLXBUN_CACHE",
    "MLXBUN_OFFLINE",
    "XDG_CACHE_HOME",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "HF_HUB_OFFLINE",
)


@dataclass(frozen=True, kw_only=True)
class ScheduleStatus:
    """What `status` shows."""

    schedule: Schedule | None
    """None: none is installed."""
    next: str | None
    """When it runs next, ISO 8601; None without a schedule."""
    last: LastRun | None
    """None: it has not run yet."""
    problem: str
    """Why the schedule cannot work, one sentence; empty if it can."""


# Installing


def install_schedule(
    at: str,
    *,
    vault: Path,
    paths: Paths,
    machine: Machine,
    arguments: tuple[str, ...] = (),
    now: Callable[[], datetime] = datetime.now,
) -> Schedule:
    """Install the schedule. An earlier one is removed first, even if this one is refused.

    Args:
        at: local time, `HH:MM`.
        vault: the vault to write.
        paths: our folders; each `MLXBUN_HOME` has one schedule.
        machine: where it is installed.
        arguments: further options for `memory synthesize`.
        now: the clock, local time without a time zone.

    Raises:
        UsageProblem: the time is not one, or the machine has no service for it.
        MlxbunError: the service refused it.
    """
    hour, minute = time_of_day(at)
    timer = choose_timer(machine)
    remove_schedule(paths=paths, machine=machine)
    entry = Entry(
        label=_label(paths),
        hour=hour,
        minute=minute,
        command=_command(arguments),
        environment=_environment(machine.environ, paths, vault),
    )
    schedule = Schedule(
        at=f"{hour:02}:{minute:02}",
        service=timer.service,
        label=entry.label,
        vault=str(vault.absolute()),
        command=entry.command,
        installed=(),
        since=stamp(now()),
    )
    # First the file, then the service: it may start the command at once, which asks the file.
    write_schedule(paths, schedule)
    try:
        installed = timer.install(entry)
    except BaseException:
        schedule_file(paths).unlink(missing_ok=True)
        raise
    done = replace(schedule, installed=installed)
    write_schedule(paths, done)
    return done


def remove_schedule(*, paths: Paths, machine: Machine) -> tuple[str, ...]:
    """Remove what `install_schedule` installed, and return it; empty: there was nothing.

    The result of the last run stays.

    Raises:
        MlxbunError: the service cannot be asked.
    """
    schedule = read_schedule(paths)
    if schedule is None:
        # The file may have been deleted by hand: the entry is found by its label, too.
        try:
            timer = choose_timer(machine)
        except UsageProblem:
            return ()
    else:
        timer = timer_of(schedule.service, machine)
    removed = timer.remove(_label(paths))
    schedule_file(paths).unlink(missing_ok=True)
    return removed


def schedule_status(
    *, paths: Paths, machine: Machine, now: Callable[[], datetime] = datetime.now
) -> ScheduleStatus:
    """Return the schedule, its next run and the result of its last one."""
    schedule = read_schedule(paths)
    last = read_last_run(paths)
    if schedule is None:
        return ScheduleStatus(schedule=None, next=None, last=last, problem="")
    upcoming = _moment(now(), schedule.at) + timedelta(days=1)
    return ScheduleStatus(
        schedule=schedule,
        next=stamp(upcoming.replace(tzinfo=None)),
        last=last,
        problem=_problem(schedule, machine),
    )


def _problem(schedule: Schedule, machine: Machine) -> str:
    program = schedule.command[0] if schedule.command else ""
    if not Path(program).exists():
        return f"{program} is missing; run `mlxbun memory schedule` again."
    try:
        if timer_of(schedule.service, machine).is_installed(schedule.label):
            return ""
    except MlxbunError as problem:
        return problem.message
    return f"The entry is missing from {schedule.service}; run `mlxbun memory schedule` again."


def _label(paths: Paths) -> str:
    digest = hashlib.sha256(os.fsencode(paths.home.absolute())).hexdigest()
    return f"mlxbun-memory-{digest[:8]}"


def _command(arguments: tuple[str, ...]) -> tuple[str, ...]:
    # -P: the services start it in the home folder, whose files must not shadow our packages.
    if broken := next((word for word in arguments if "\n" in word), None):
        raise UsageProblem(f"{broken!r} contains a line break.")
    start = (sys.executable, "-P", "-m", "mlxbun_cli", "memory", "synthesize", SCHEDULED_FLAG)
    return (*start, *arguments)


def _environment(environ: Mapping[str, str], paths: Paths, vault: Path) -> dict[str, str]:
    """Return what the command needs of this environment; no tokens or keys."""
    carried = {name: environ[name] for name in _CARRIED if environ.get(name)}
    # Absolute: a service starts the command in another folder.
    carried["MLXBUN_HOME"] = str(paths.home.absolute())
    carried["MLXBUN_CACHE"] = str(paths.cache.absolute())
    carried["MLXBUN_WIKI"] = str(vault.absolute())
    git = shutil.which("git", path=environ.get("PATH"))
    folders = [str(Path(git).parent.absolute())] if git else []
    folders += [folder for folder in ("/usr/bin", "/bin") if folder not in folders]
    carried["PATH"] = ":".join(folders)
    if broken := next((name for name, value in carried.items() if "\n" in value), None):
        raise UsageProblem(f"{broken} contains a line break.")
    return carried


# A scheduled run


def run_scheduled(
    work: Callable[[], SynthesisSummary],
    *,
    paths: Paths,
    cancelled: Callable[[], bool] = lambda: False,
    wait_seconds: float = LEASE_WAIT_SECONDS,
    now: Callable[[], datetime] = datetime.now,
) -> LastRun | None:
    """Do the work if it is due, under the lease of the accelerator, and keep the result.

    Args:
        work: the synthesis.
        paths: our folders.
        cancelled: checked while it waits for the lease.
        wait_seconds: how long it waits for the lease; after that the run is skipped.
        now: the clock.

    Returns:
        The result; None: no run is due, or another scheduled run is under way.

    Raises:
        Cancelled: it was cancelled.
        MlxbunError: what `work` raises; the result is kept as `failed`.
    """
    with _alone(paths) as alone:
        if not alone or not is_due(read_schedule(paths), read_last_run(paths), now=now()):
            return None
        started = _begin(paths, now)
        try:
            result = _under_lease(work, paths, cancelled, wait_seconds)
        except Cancelled:
            _end(paths, now, started, "skipped", "It was cancelled.")
            raise
        except AlreadyRunning as busy:
            return _end(paths, now, started, "skipped", busy.message)
        except Exception as problem:
            said = problem.message if isinstance(problem, MlxbunError) else repr(problem)
            _end(paths, now, started, "failed", said)
            raise
        return _finish(paths, now, started, result)


def is_due(schedule: Schedule | None, last: LastRun | None, *, now: datetime) -> bool:
    """Return whether the last moment at which the schedule fell has not had its run yet.

    A run that was skipped or interrupted does not count; a failed one does, until the next day.
    """
    if schedule is None:
        return False
    moment = _moment(now, schedule.at)
    if datetime.fromisoformat(schedule.since) > moment:
        return False
    if last is None or last.outcome in {"skipped", "interrupted"}:
        return True
    return datetime.fromisoformat(last.started) < moment


def _moment(now: datetime, at: str) -> datetime:
    """Return the last time at which the clock showed `at`, with a time zone."""
    hour, minute = time_of_day(at)
    today = now.replace(tzinfo=None, hour=hour, minute=minute, second=0, microsecond=0)
    naive_now = now.replace(tzinfo=None)
    return (today if today <= naive_now else today - timedelta(days=1)).astimezone()


def _under_lease(
    work: Callable[[], SynthesisSummary],
    paths: Paths,
    cancelled: Callable[[], bool],
    wait_seconds: float,
) -> SynthesisSummary:
    """Do the work while this process holds the lease.

    Raises:
        AlreadyRunning: another process held it all the time.
    """
    deadline = time.monotonic() + wait_seconds
    while (lease := try_lease(paths.lease_file, what="mlxbun memory synthesize")) is None:
        if cancelled():
            raise Cancelled
        if time.monotonic() >= deadline:
            raise AlreadyRunning(f"The accelerator is in use by {holder_words(paths.lease_file)}.")
        time.sleep(min(_POLL_SECONDS, wait_seconds))
    try:
        return work()
    finally:
        lease.release()


def _begin(paths: Paths, now: Callable[[], datetime]) -> LastRun:
    pid = os.getpid()
    run = LastRun(
        started=stamp(now()),
        finished=None,
        outcome="running",
        reason="",
        pid=pid,
        born=process_born(pid) or "",
    )
    write_last_run(paths, run)
    return run


def _finish(
    paths: Paths, now: Callable[[], datetime], started: LastRun, summary: SynthesisSummary
) -> LastRun:
    changed = summary.commit is not None
    return _end(
        paths,
        now,
        started,
        "done" if changed else "unchanged",
        summary.note,
        run=summary.run if changed else "",
        commit=summary.commit or "",
    )


def _end(
    paths: Paths,
    now: Callable[[], datetime],
    started: LastRun,
    outcome: RunOutcome,
    reason: str,
    *,
    run: str = "",
    commit: str = "",
) -> LastRun:
    result = replace(
        started, finished=stamp(now()), outcome=outcome, reason=reason, run=run, commit=commit
    )
    write_last_run(paths, result)
    return result


@contextmanager
def _alone(paths: Paths) -> Iterator[bool]:
    """Yield whether this is the only scheduled run; the system frees the lock if it is killed."""
    path = paths.run_folder / "memory-schedule.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
