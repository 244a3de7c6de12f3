"""`--install-completion`: puts the script where the shell finds it.

bash and zsh read it by a line in their start file, which is appended once and is all that is ever
changed there; fish has a folder for such scripts.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import MlxbunError, UsageProblem
from core.paths import atomic_write
from mlxbun_cli.completion.scripts import FILES, SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from core.paths import Paths

_READ = {
    "bash": "if [ -r {0} ]; then . {0}; fi  # completes mlxbun",
    "zsh": (
        "if [[ -r {0} ]]; then (( $+functions[compdef] )) || "
        "{{ autoload -Uz compinit && compinit -i }}; source {0}; fi  # completes mlxbun"
    ),
}
_MOST_ANCESTORS = 10


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where completion for a shell goes."""

    script: Path
    """The script."""
    start_file: Path | None = None
    """The file that the shell reads when it starts; None: it needs none."""
    line: str = ""
    """What stands there."""


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What was done."""

    places: Places
    """Where."""
    changed: bool
    """Whether anything was written; else it was all there."""


def script_of(shell: str) -> str:
    """Return the script of a shell.

    Raises:
        UsageProblem: there is none for it.
    """
    if shell not in SCRIPTS:
        raise UsageProblem(
            f"There is no completion for {shell!r}.",
            hint="There is one for bash, zsh and fish: name one of them behind the option.",
        )
    return SCRIPTS[shell]


def install(shell: str, *, environ: Mapping[str, str], paths: Paths) -> Installed:
    """Put the script of a shell into its place, and have the shell read it.

    Raises:
        UsageProblem: there is none for that shell.
        MlxbunError: a file cannot be written; the start file is as it was.
    """
    script = script_of(shell)
    places = find_places(shell, environ=environ, paths=paths)
    with _told(places.script, shell):
        changed = _write(places.script, script)
    if places.start_file is not None:
        with _told(places.start_file, shell):
            changed |= _append_once(places.start_file, places.line)
    return Installed(places=places, changed=changed)


def find_places(shell: str, *, environ: Mapping[str, str], paths: Paths) -> Places:
    """Return where completion for a shell goes. Touches nothing."""
    user = Path(environ.get("HOME") or Path.home())
    if shell == "fish":
        config = Path(environ.get("XDG_CONFIG_HOME") or user / ".config")
        return Places(script=config / "fish" / "completions" / FILES[shell])
    script = paths.home.absolute() / "completions" / FILES[shell]
    start = user / ".bashrc" if shell == "bash" else Path(environ.get("ZDOTDIR") or user) / ".zshrc"
    line = _READ[shell].format(shlex.quote(str(script)))
    return Places(script=script, start_file=start, line=line)


def login_remark(shell: str, *, environ: Mapping[str, str], system: str) -> str | None:
    """Return what is left to do where terminals open login shells, or None.

    bash reads ~/.bash_profile then, and ~/.bashrc only where that one says so.

    Args:
        shell: which one.
        environ: the environment.
        system: `platform.system()`.
    """
    if shell != "bash" or system != "Darwin":
        return None
    user = Path(environ.get("HOME") or Path.home())
    for profile in (user / ".bash_profile", user / ".bash_login", user / ".profile"):
        if profile.is_file():
            if b"bashrc" in profile.read_bytes():
                return None
            return f"Terminals on macOS read {profile} alone: have it read ~/.bashrc."
    return "Terminals on macOS read ~/.bash_profile alone: make one that reads ~/.bashrc."


def find_shell(environ: Mapping[str, str]) -> str:
    """Return the shell that mlxbun was called from, else the user's login shell.

    Raises:
        UsageProblem: neither can be told.
    """
    login = Path(environ.get("SHELL", "")).name
    for name in (*_ancestors(), login):
        if name in SCRIPTS:
            return name
    raise UsageProblem(
        "It cannot be told which shell this is.",
        hint="Name it behind the option: bash, zsh or fish.",
    )


@contextmanager
def _told(path: Path, shell: str) -> Iterator[None]:
    """Tell what cannot be written, and what else can be done."""
    try:
        yield
    except OSError as problem:
        raise MlxbunError(
            f"{path} cannot be written: {problem.strerror}.",
            hint=f"`mlxbun --show-completion {shell}` prints the script: put it where {shell} "
            "reads it.",
        ) from problem


def _ancestors() -> Iterator[str]:
    """Yield the names of the processes above this one, the nearest first."""
    pid = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        command = ["ps", "-o", "ppid=,comm=", "-p", str(pid)]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except OSError:  # no ps here
            return
        parent, _, name = answer.strip().partition(" ")
        if not parent.isdigit():
            return
        yield Path(name.strip()).name.removeprefix("-")  # a login shell is `-zsh`
        pid = int(parent)


def _write(path: Path, text: str) -> bool:
    """Write a file; return whether it was another one before."""
    data = text.encode()
    if path.is_file() and path.read_bytes() == data:
        return False
    with atomic_write(path) as file:
        file.write(data)
    return True


def _append_once(path: Path, line: str) -> bool:
    """Append a line to a file that does not have it; return whether it was missing.

    The file stays the same one, with its links, owner and mode. What cannot be written whole is
    taken back.
    """
    data = line.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        before = file.read()
        if data in before.splitlines():
            return False
        separator = b"" if not before or before.endswith(b"\n") else b"\n"
        try:
            file.write(separator + data + b"\n")
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), len(before))
            raise
    return True
