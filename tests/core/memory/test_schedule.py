"""Schedules: what is installed and removed, when a run is due, and what is kept of it.

The services are small scripts on a `PATH` of the test: no real launchd, systemd or cron is called.
"""

from __future__ import annotations

import fcntl
import json
import os
import plistlib
import shlex
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from core.errors import MlxbunError, UsageProblem, VaultBusy
from core.jobs.lease import try_lease
from core.memory import schedule as schedules
from core.memory.asking import Cancelled
from core.memory.events import SynthesisSummary
from core.memory.schedule_files import Schedule, read_last_run, read_schedule
from core.memory.timers import Machine
from core.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

NIGHT = datetime(2026, 3, 10, 3, 0)
LAUNCHCTL = 'echo "launchctl $*" >> "$HOME/calls"'
SYSTEMCTL = 'echo "systemctl $*" >> "$HOME/calls"'
CRONTAB = """
case "$1" in
  -l) if [ -f "$HOME/tab" ]; then cat "$HOME/tab"; else echo "no crontab for me" >&2; exit 1; fi;;
  -r) rm "$HOME/tab";;
  -) cat > "$HOME/tab";;
esac
"""


def a_machine(tmp_path: Path, platform: str, **programs: str) -> Machine:
    """Return a machine whose only programs are the given scripts (and the shell's own)."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        (folder / name).chmod(0o755)
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return Machine(platform=platform, environ={"HOME": str(home), "PATH": str(folder)}, user=501)


def some_paths(tmp_path: Path) -> Paths:
    home = tmp_path / "home"
    return Paths(home=home / ".mlxbun", cache=home / "cache 100%", hub_cache=home / "hub")


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "home" / "calls").read_text().splitlines()


def everything_under(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "calls"
    }


def install(tmp_path: Path, machine: Machine, at: str = "03:00") -> Schedule:
    return schedules.install_schedule(
        at,
        vault=tmp_path / 'my "wiki" $x',
        paths=some_paths(tmp_path),
        machine=machine,
        now=lambda: NIGHT - timedelta(hours=9),
    )


def test_launchd_agent(tmp_path: Path) -> None:
    machine = a_machine(tmp_path, "darwin", launchctl=LAUNCHCTL)
    done = install(tmp_path, machine)
    agent = plistlib.loads(
        (machine.home / "Library/LaunchAgents").joinpath(f"{done.label}.plist").read_bytes()
    )
    assert agent["ProgramArguments"] == [
        sys.executable,
        "-P",
        "-m",
        "mlxbun_cli",
        "memory",
        "synthesize",
        "--scheduled",
    ]
    assert agent["StartCalendarInterval"] == {"Hour": 3, "Minute": 0}
    assert agent["EnvironmentVariables"]["MLXBUN_WIKI"] == str(tmp_path / 'my "wiki" $x')
    assert agent["EnvironmentVariables"]["MLXBUN_HOME"] == str(machine.home / ".mlxbun")
    assert calls(tmp_path)[-1] == f"launchctl bootstrap gui/501 {done.installed[0]}"


def test_launchd_that_refuses_leaves_nothing(tmp_path: Path) -> None:
    machine = a_machine(
        tmp_path,
        "darwin",
        launchctl='[ "$1" = bootstrap ] && { echo "Bootstrap failed: 5" >&2; exit 5; }',
    )
    before = everything_under(tmp_path)
    with pytest.raises(MlxbunError, match="launchd refused the agent: Bootstrap failed: 5"):
        install(tmp_path, machine)
    assert everything_under(tmp_path) == before


def test_systemd_timer(tmp_path: Path) -> None:
    machine = a_machine(tmp_path, "linux", systemctl=SYSTEMCTL, crontab=CRONTAB)
    done = install(tmp_path, machine)
    assert done.service == "systemd"
    units = machine.home / ".config/systemd/user"
    timer = (units / f"{done.label}.timer").read_text()
    service = (units / f"{done.label}.service").read_text()
    assert "OnCalendar=*-*-* 03:00:00\nPersistent=true\n" in timer
    command = shlex.join([sys.executable]).strip("'")
    assert f'ExecStart="{command}" "-P" "-m" "mlxbun_cli" "memory" "synthesize"' in service
    assert 'my \\"wiki\\" $x"' in service
    assert "cache 100%%" in service
    assert calls(tmp_path)[-1] == f"systemctl --user enable --now {done.label}.timer"


def test_cron_line(tmp_path: Path) -> None:
    machine = a_machine(tmp_path, "linux", crontab=CRONTAB)
    tab = machine.home / "tab"
    tab.write_bytes(b"# mine\n5 4 * * * caf\xe9 # mlxbun-memory\n17 * * * * last line without end")
    done = install(tmp_path, machine, "3:07")
    lines = tab.read_bytes().splitlines()
    assert lines[:3] == [
        b"# mine",
        b"5 4 * * * caf\xe9 # mlxbun-memory",
        b"17 * * * * last line without end",
    ]
    assert lines[3].decode() == done.installed[0]
    assert lines[3].startswith(b"7 * * * * /usr/bin/env ")
    assert b"cache 100\\%" in lines[3]
    assert len(lines) == 4


def test_cron_of_a_manager_that_does_not_answer(tmp_path: Path) -> None:
    machine = a_machine(tmp_path, "linux", systemctl="exit 1", crontab=CRONTAB)
    assert install(tmp_path, machine).service == "cron"


def test_a_crontab_that_cannot_be_read_is_not_overwritten(tmp_path: Path) -> None:
    broken = 'if [ "$1" = -l ]; then echo "cannot open" >&2; exit 1; else cat > "$HOME/tab"; fi'
    machine = a_machine(tmp_path, "linux", crontab=broken)
    with pytest.raises(MlxbunError, match="Could not read the crontab: cannot open"):
        install(tmp_path, machine)
    assert not (machine.home / "tab").exists()


def test_a_machine_without_any_service(tmp_path: Path) -> None:
    machine = a_machine(tmp_path, "linux")
    with pytest.raises(UsageProblem, match="neither a systemd user manager nor cron"):
        install(tmp_path, machine)
    assert schedules.remove_schedule(paths=some_paths(tmp_path), machine=machine) == ()


@pytest.mark.parametrize(
    "at", ["24:00", "03:60", "3", "", "03:00:00", "\u0660\u0663:\u0660\u0660", "-1:00"]
)
def test_times_that_are_none(tmp_path: Path, at: str) -> None:
    with pytest.raises(UsageProblem, match="--at must be a time of day"):
        install(tmp_path, a_machine(tmp_path, "linux", crontab=CRONTAB), at)


@pytest.mark.parametrize(
    ("platform", "programs"),
    [
        ("darwin", {"launchctl": LAUNCHCTL}),
        ("linux", {"systemctl": SYSTEMCTL}),
        ("linux", {"crontab": CRONTAB}),
    ],
)
def test_removal_leaves_what_was_there_before(
    tmp_path: Path, platform: str, programs: dict[str, str]
) -> None:
    machine = a_machine(tmp_path, platform, **programs)
    paths = some_paths(tmp_path)
    before = everything_under(tmp_path)
    first = install(tmp_path, machine)
    second = install(tmp_path, machine, "04:30")
    assert first.label == second.label
    status = schedules.schedule_status(paths=paths, machine=machine, now=lambda: NIGHT)
    assert (status.problem, status.schedule) == ("", second)
    assert status.next is not None
    assert status.next.startswith("2026-03-10T04:30:00")
    assert schedules.remove_schedule(paths=paths, machine=machine) == second.installed
    assert everything_under(tmp_path) == before
    assert schedules.remove_schedule(paths=paths, machine=machine) == ()


def test_removal_of_one_leaves_the_other(tmp_path: Path) -> None:
    """Two homes of one user have an entry each."""
    machine = a_machine(tmp_path, "linux", crontab=CRONTAB)
    other = Paths(home=tmp_path / "home" / "two", cache=tmp_path / "c", hub_cache=tmp_path / "h")
    install(tmp_path, machine)
    schedules.install_schedule("05:00", vault=tmp_path / "w", paths=other, machine=machine)
    assert len(schedules.remove_schedule(paths=some_paths(tmp_path), machine=machine)) == 1
    assert schedules.schedule_status(paths=other, machine=machine).problem == ""


def test_status_says_that_the_entry_or_the_interpreter_is_gone(tmp_path: Path) -> None:
    machine = a_machine(tmp_path, "linux", crontab=CRONTAB)
    paths = some_paths(tmp_path)
    install(tmp_path, machine)
    (machine.home / "tab").unlink()
    assert schedules.schedule_status(paths=paths, machine=machine).problem == (
        "The entry is missing from cron; run `mlxbun memory schedule` again."
    )
    file = paths.home / "memory-schedule.json"
    raw = json.loads(file.read_text())
    file.write_text(json.dumps({**raw, "command": [str(tmp_path / "gone" / "python"), "-m"]}))
    assert "python is missing" in schedules.schedule_status(paths=paths, machine=machine).problem


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"at": 3}', "[" * 50_000, '{"at": "99:99"}'])
def test_damaged_files_are_no_schedule(tmp_path: Path, text: str) -> None:
    paths = some_paths(tmp_path)
    paths.home.mkdir(parents=True)
    (paths.home / "memory-schedule.json").write_text(text)
    (paths.home / "memory-last-run.json").write_text(text)
    assert read_schedule(paths) is None
    assert read_last_run(paths) is None


# Runs


def summary(commit: str | None = "c0ffee") -> SynthesisSummary:
    return SynthesisSummary(
        run="20260310-030000-abcd",
        commit=commit,
        branch=None,
        model="rules",
        conversations=1,
        tokens=10,
        seconds=0.1,
        facts=1,
        created=(),
        changed=(),
        refused=0,
        complete=True,
        note="1 fact from 1 conversation.",
    )


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Return the folders of a home with a schedule at 03:00, installed the day before."""
    install(tmp_path, a_machine(tmp_path, "linux", crontab=CRONTAB))
    return some_paths(tmp_path)


def run(paths: Paths, at: datetime = NIGHT, commit: str | None = "c0ffee") -> str:
    result = schedules.run_scheduled(
        lambda: summary(commit), paths=paths, wait_seconds=0, now=lambda: at
    )
    return "not due" if result is None else result.outcome


def test_a_run_happens_once_a_day_and_is_made_up_for(paths: Paths) -> None:
    assert run(paths, NIGHT - timedelta(minutes=1)) == "not due"
    assert run(paths, NIGHT + timedelta(hours=6)) == "done"  # the machine slept at three
    assert run(paths, NIGHT + timedelta(hours=7)) == "not due"
    assert run(paths, NIGHT + timedelta(days=3), commit=None) == "unchanged"
    last = read_last_run(paths)
    assert last is not None
    assert (last.reason, last.run, last.commit) == ("1 fact from 1 conversation.", "", "")


def test_without_a_schedule_nothing_runs(tmp_path: Path) -> None:
    assert run(some_paths(tmp_path)) == "not due"


def test_a_run_is_skipped_while_the_accelerator_is_taken(paths: Paths) -> None:
    lease = try_lease(paths.lease_file, what="mlxbun train")
    assert lease is not None
    assert run(paths) == "skipped"
    last = read_last_run(paths)
    assert last is not None
    assert last.reason == (f"The accelerator is in use by mlxbun train, process {os.getpid()}.")
    lease.release()
    assert run(paths, NIGHT + timedelta(hours=1)) == "done"


def test_a_run_holds_the_lease(paths: Paths) -> None:
    def work() -> SynthesisSummary:
        assert try_lease(paths.lease_file, what="another") is None
        return summary()

    assert schedules.run_scheduled(work, paths=paths, now=lambda: NIGHT) is not None
    lease = try_lease(paths.lease_file, what="another")
    assert lease is not None
    lease.release()


def test_failures_are_kept_and_raised(paths: Paths) -> None:
    def fails() -> SynthesisSummary:
        raise MlxbunError("The model is gone.")

    with pytest.raises(MlxbunError, match="The model is gone"):
        schedules.run_scheduled(fails, paths=paths, now=lambda: NIGHT)
    last = read_last_run(paths)
    assert last is not None
    assert (last.outcome, last.reason) == ("failed", "The model is gone.")
    assert run(paths, NIGHT + timedelta(hours=1)) == "not due"
    assert run(paths, NIGHT + timedelta(days=1)) == "done"


def test_a_busy_vault_skips_the_run(paths: Paths) -> None:
    def busy() -> SynthesisSummary:
        raise VaultBusy("Another process writes to the vault.")

    result = schedules.run_scheduled(busy, paths=paths, now=lambda: NIGHT)
    assert result is not None
    assert (result.outcome, result.reason) == ("skipped", "Another process writes to the vault.")


def test_cancelled_while_it_waits(paths: Paths) -> None:
    lease = try_lease(paths.lease_file, what="mlxbun train")
    assert lease is not None
    with pytest.raises(Cancelled):
        schedules.run_scheduled(summary, paths=paths, cancelled=lambda: True, now=lambda: NIGHT)
    lease.release()
    last = read_last_run(paths)
    assert last is not None
    assert (last.outcome, last.reason) == ("skipped", "It was cancelled.")


def test_a_process_that_died_shows_as_interrupted_and_runs_again(paths: Paths) -> None:
    child = os.fork()
    if child == 0:  # pragma: no cover
        schedules.run_scheduled(lambda: os._exit(9), paths=paths, now=lambda: NIGHT)
    os.waitpid(child, 0)
    last = read_last_run(paths)
    assert last is not None
    assert (last.outcome, last.finished) == ("interrupted", None)
    assert run(paths, NIGHT + timedelta(hours=1)) == "done"


def test_two_starts_at_once_are_one_run(paths: Paths) -> None:
    paths.run_folder.mkdir(parents=True, exist_ok=True)
    with (paths.run_folder / "memory-schedule.lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert run(paths) == "not due"
    assert run(paths) == "done"
