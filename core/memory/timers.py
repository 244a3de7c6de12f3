"""The three system services that can start a command once a day: launchd, systemd and cron.

Each timer installs its own files or line, and removes exactly those. Programs are looked up on the
`PATH` of a given environment and are run without a shell.
"""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from core.errors import MlxbunError, UsageProblem
from core.paths import atomic_write

if TYPE_CHECKING:
    from collections.abc import Mapping

Service = Literal["launchd", "systemd", "cron"]
_TIMEOUT_SECONDS = 30
_LONGEST_CRON_LINE = 990  # Vixie cron cuts commands after 1,000 characters
_DESCRIPTION = "mlxbun memory synthesize"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is to be started, and when."""

    label: str
    """Name of the entry: `mlxbun-memory-1a2b3c4d`. Letters, digits and hyphens."""
    hour: int
    """0 to 23, local time."""
    minute: int
    """0 to 59."""
    command: tuple[str, ...]
    """Program and arguments; the program with an absolute path."""
    environment: Mapping[str, str]
    """Variables for the command."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The part of the system that timers use."""

    platform: str
    """As `sys.platform`."""
    environ: Mapping[str, str]
    """The environment: `HOME`, `PATH`, XDG folders; programs inherit it."""
    user: int
    """User id."""

    @classmethod
    def here(cls, environ: Mapping[str, str]) -> Machine:
        """Return this machine, with that environment."""
        return cls(platform=sys.platform, environ=environ, user=os.getuid())

    @property
    def home(self) -> Path:
        """The user's home."""
        return Path(self.environ.get("HOME") or Path.home())

    def folder(self, variable: str, default: str) -> Path:
        """Return an XDG folder; relative values are ignored, as the specification says."""
        value = self.environ.get(variable, "")
        return Path(value) if value.startswith("/") else self.home / default

    def has(self, program: str) -> bool:
        """Return whether a program is on the path."""
        return shutil.which(program, path=self.environ.get("PATH")) is not None

    def call(self, program: str, *arguments: str, text: str | None = None) -> Outcome:
        """Run a program and wait for it.

        Raises:
            MlxbunError: it is missing, or takes longer than 30 seconds.
        """
        path = shutil.which(program, path=self.environ.get("PATH"))
        if path is None:
            raise MlxbunError(f"{program} is not on the PATH.")
        try:
            done = subprocess.run(
                [path, *arguments],
                input=(text or "").encode("utf-8", "surrogateescape"),
                capture_output=True,
                timeout=_TIMEOUT_SECONDS,
                env=dict(self.environ),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise MlxbunError(f"Could not run {program}: {problem}.") from problem
        return Outcome(code=done.returncode, out=done.stdout, err=done.stderr)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a program ended."""

    code: int
    """Exit code."""
    out: bytes
    """Standard output."""
    err: bytes
    """Standard error."""

    def reason(self) -> str:
        """Return what the program said, on one line."""
        said = (self.err.strip() or self.out.strip()).decode(errors="replace")
        return " ".join(said.split())[:300] or f"exit code {self.code}"


class Timer(Protocol):
    """A service that starts an entry once a day."""

    service: Service
    """Which."""

    def install(self, entry: Entry) -> tuple[str, ...]:
        """Install an entry, in place of one with the same label, and return what was written.

        Raises:
            MlxbunError: the service refuses it; nothing is left installed.
        """

    def remove(self, label: str) -> tuple[str, ...]:
        """Remove an entry and return what was removed; empty: there was none."""

    def is_installed(self, label: str) -> bool:
        """Return whether the entry is there."""


def choose_timer(machine: Machine) -> Timer:
    """Return the service of this machine.

    Raises:
        UsageProblem: there is none.
    """
    if machine.platform == "darwin":
        return Launchd(machine)
    if machine.has("systemctl") and _user_manager_runs(machine):
        return Systemd(machine)
    if machine.has("crontab"):
        return Cron(machine)
    raise UsageProblem(
        "This machine has neither a systemd user manager nor cron.",
        hint="Start `mlxbun memory synthesize` from a scheduler of your own.",
    )


def timer_of(service: str, machine: Machine) -> Timer:
    """Return a service by its name."""
    if service == "launchd":
        return Launchd(machine)
    return Systemd(machine) if service == "systemd" else Cron(machine)


def _user_manager_runs(machine: Machine) -> bool:
    """Return whether `systemctl --user` reaches a manager (it does not in most containers)."""
    try:
        return machine.call("systemctl", "--user", "show-environment").code == 0
    except MlxbunError:
        return False


class Launchd:
    """A launch agent in `~/Library/LaunchAgents`."""

    service: Service = "launchd"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def install(self, entry: Entry) -> tuple[str, ...]:
        """Write the agent and load it into the user's session.

        A start that falls into sleep is made up for on waking; `RunAtLoad` makes up for one that
        falls into a time when the machine is off (`core.memory.schedule` skips what is not due).
        """
        path = self._path(entry.label)
        agent = {
            "Label": entry.label,
            "ProgramArguments": list(entry.command),
            "EnvironmentVariables": dict(entry.environment),
            "StartCalendarInterval": {"Hour": entry.hour, "Minute": entry.minute},
            "RunAtLoad": True,
            "ProcessType": "Background",
        }
        self._unload(entry.label)
        with atomic_write(path) as file:
            file.write(plistlib.dumps(agent))
        if problem := self._load(path):
            path.unlink(missing_ok=True)
            raise MlxbunError(f"launchd refused the agent: {problem}.")
        return (str(path),)

    def remove(self, label: str) -> tuple[str, ...]:
        """Unload the agent and delete its file."""
        self._unload(label)
        return _delete(self._path(label))

    def is_installed(self, label: str) -> bool:
        """Return whether the agent's file is there."""
        return self._path(label).exists()

    def _path(self, label: str) -> Path:
        return self._machine.home / "Library" / "LaunchAgents" / f"{label}.plist"

    def _load(self, path: Path) -> str:
        """Load into the graphical session, or without one (over SSH) into the user's domain."""
        problem = ""
        for domain in ("gui", "user"):
            place = f"{domain}/{self._machine.user}"
            done = self._machine.call("launchctl", "bootstrap", place, str(path))
            if done.code == 0:
                return ""
            problem = done.reason()
        return problem

    def _unload(self, label: str) -> None:
        for domain in ("gui", "user"):
            with suppress(MlxbunError):  # not loaded there
                self._machine.call("launchctl", "bootout", f"{domain}/{self._machine.user}/{label}")


class Systemd:
    """A user timer with `Persistent=true` in `~/.config/systemd/user`."""

    service: Service = "systemd"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def install(self, entry: Entry) -> tuple[str, ...]:
        """Write service and timer, and start the timer."""
        files = {
            self._path(entry.label, "service"): _service_unit(entry),
            self._path(entry.label, "timer"): _timer_unit(entry),
        }
        for path, text in files.items():
            with atomic_write(path) as file:
                file.write(text.encode())
        if problem := self._systemctl(("daemon-reload",), self._enable(entry.label)):
            self.remove(entry.label)
            raise MlxbunError(f"systemd refused the timer: {problem}.")
        return tuple(str(path) for path in files)

    def remove(self, label: str) -> tuple[str, ...]:
        """Stop the timer and delete its files, and the stamp of its last start."""
        if not any(self._path(label, kind).exists() for kind in ("service", "timer")):
            return ()
        self._systemctl(("disable", "--now", f"{label}.timer"))
        removed = [
            *_delete(self._path(label, "service")),
            *_delete(self._path(label, "timer")),
        ]
        data = self._machine.folder("XDG_DATA_HOME", ".local/share")
        _delete(data / "systemd" / "timers" / f"stamp-{label}.timer")
        self._systemctl(("daemon-reload",))
        return tuple(removed)

    def is_installed(self, label: str) -> bool:
        """Return whether both files are there."""
        return all(self._path(label, kind).exists() for kind in ("service", "timer"))

    def _path(self, label: str, kind: str) -> Path:
        config = self._machine.folder("XDG_CONFIG_HOME", ".config")
        return config / "systemd" / "user" / f"{label}.{kind}"

    @staticmethod
    def _enable(label: str) -> tuple[str, ...]:
        return ("enable", "--now", f"{label}.timer")

    def _systemctl(self, *calls: tuple[str, ...]) -> str:
        """Make the calls in order; return why one failed, or an empty string."""
        for call in calls:
            try:
                done = self._machine.call("systemctl", "--user", *call)
            except MlxbunError as problem:
                return problem.message
            if done.code:
                return done.reason()
        return ""


class Cron:
    """A line in the user's crontab.

    cron makes up for nothing, so the line starts every hour at the minute, and
    `core.memory.schedule` skips what is not due.
    """

    service: Service = "cron"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def install(self, entry: Entry) -> tuple[str, ...]:
        """Add the line, in place of an earlier one; other lines stay as they are."""
        line = _cron_line(entry)
        if len(line.encode()) > _LONGEST_CRON_LINE:
            raise MlxbunError(
                "The command is too long for a crontab line.",
                hint="Use shorter folder names in MLXBUN_HOME, MLXBUN_WIKI and the like.",
            )
        others, _ = self._split(entry.label)
        if others and not others.endswith("\n"):
            others += "\n"
        self._write(f"{others}{line}\n")
        return (line,)

    def remove(self, label: str) -> tuple[str, ...]:
        """Remove the line, and a crontab that held nothing else."""
        others, ours = self._split(label)
        if not ours:
            return ()
        if others:
            self._write(others)
        elif (done := self._machine.call("crontab", "-r")).code:
            raise MlxbunError(f"Could not remove the crontab: {done.reason()}.")
        return tuple(ours)

    def is_installed(self, label: str) -> bool:
        """Return whether the line is there."""
        return bool(self._split(label)[1])

    def _split(self, label: str) -> tuple[str, list[str]]:
        """Return the other lines as they stand, and ours without their line ends."""
        lines = self._read().splitlines(keepends=True)
        ours = [line for line in lines if line.rstrip().endswith(f"# {label}")]
        return "".join(line for line in lines if line not in ours), [x.rstrip() for x in ours]

    def _read(self) -> str:
        """Return the crontab.

        Raises:
            MlxbunError: it cannot be read; it must not be overwritten then.
        """
        done = self._machine.call("crontab", "-l")
        if done.code and b"no crontab" not in done.err.lower():
            raise MlxbunError(f"Could not read the crontab: {done.reason()}.")
        return "" if done.code else done.out.decode("utf-8", "surrogateescape")

    def _write(self, text: str) -> None:
        done = self._machine.call("crontab", "-", text=text)
        if done.code:
            raise MlxbunError(f"cron refused the line: {done.reason()}.")


def _service_unit(entry: Entry) -> str:
    lines = [
        "[Unit]",
        f"Description={_DESCRIPTION}",
        "",
        "[Service]",
        "Type=oneshot",
        "Nice=10",
        *(f"Environment={_unit_word(f'{k}={v}')}" for k, v in sorted(entry.environment.items())),
        f"ExecStart={' '.join(_unit_word(word, command=True) for word in entry.command)}",
    ]
    return "\n".join(lines) + "\n"


def _timer_unit(entry: Entry) -> str:
    return (
        f"[Unit]\nDescription={_DESCRIPTION}, once a day\n\n[Timer]\n"
        f"OnCalendar=*-*-* {entry.hour:02}:{entry.minute:02}:00\nPersistent=true\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )


def _unit_word(word: str, *, command: bool = False) -> str:
    r"""Quote a word for a unit file: `"`, `\`, `%` (specifiers) and in commands `$`.

    Source: systemd.syntax(7) and systemd.service(5), "Command lines".
    """
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{word.replace("$", "$$") if command else word}"'


def _cron_line(entry: Entry) -> str:
    """Return the line; a `%` would end the command, so it is escaped (crontab(5))."""
    assignments = [f"{key}={value}" for key, value in sorted(entry.environment.items())]
    command = shlex.join(["/usr/bin/env", *assignments, *entry.command]).replace("%", "\\%")
    return f"{entry.minute} * * * * {command} >/dev/null 2>&1 # {entry.label}"


def _delete(path: Path) -> tuple[str, ...]:
    try:
        path.unlink()
    except FileNotFoundError:
        return ()
    return (str(path),)
