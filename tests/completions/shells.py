"""Real shells that complete: what they would put on the command line, and what they would list."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "completions"

_SHOWN = re.compile(rb"<<(.*?)>>", re.DOTALL)
_BASH_START = """
PS1='READY> '
bind 'set bell-style none'
bind -x '"\\C-g": printf "<<%s>>" "$READLINE_LINE"; READLINE_LINE= READLINE_POINT=0'
"""
_ZSH_START = """
PS1='READY> '
autoload -Uz compinit && compinit -D -i
show() { print -rn -- "<<$BUFFER>>" >/dev/tty; BUFFER= }
zle -N show
bindkey '^G' show
"""


def needs(shell: str) -> None:
    """Skip a test where a shell is not installed."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


class Prompt:
    """A shell that waits for input at a terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._unread = b""

    def line_after(self, typed: str, *, tabs: int = 1) -> str:
        """Type, press Tab, and return the line as it is then; clear it."""
        self._write(typed + "\t" * tabs + "\x07")
        return self._wait_for(_SHOWN)[1].decode()

    def wait_until_ready(self) -> None:
        """Wait for the prompt."""
        self._wait_for(re.compile(rb"READY> "))

    def listed_after(self, typed: str, last: str) -> str:
        """Type, press Tab, and return what is shown up to a text; clear the line."""
        self._write(typed + "\t")
        shown = self._wait_for(re.compile(b".*" + re.escape(last.encode()), re.DOTALL))[0].decode()
        self._write("\x07")
        self._wait_for(_SHOWN)
        return shown

    def _write(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def _wait_for(self, wanted: re.Pattern[bytes]) -> re.Match[bytes]:
        deadline = time.monotonic() + 30
        while not (found := wanted.search(self._unread)):
            assert time.monotonic() < deadline, self._unread
            if select.select([self._terminal], [], [], 0.2)[0]:
                self._unread += os.read(self._terminal, 65536)
        self._unread = self._unread[found.end() :]
        return found


@contextmanager
def prompt(shell: str, *, environ: Mapping[str, str], folder: Path, start: str) -> Iterator[Prompt]:
    """Start bash or zsh at a terminal.

    Args:
        shell: which one.
        environ: its environment; HOME is where its start file is written.
        folder: where it is.
        start: what its start file does after the prompt is set.
    """
    rc = Path(environ["HOME"]) / f".{shell}rc"
    rc.write_text((_BASH_START if shell == "bash" else _ZSH_START) + start)
    command = (
        ["bash", "--noprofile", "--rcfile", str(rc), "-i"] if shell == "bash" else ["zsh", "-i"]
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, {**environ, "TERM": "dumb", "LANG": "C.UTF-8"})
    try:
        ready = Prompt(terminal)
        ready.wait_until_ready()
        yield ready
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def bash_replies(
    words: list[str], *, environ: Mapping[str, str], folder: Path | None = None
) -> list[str]:
    """Return what the function of the script leaves in COMPREPLY, given COMP_WORDS alone."""
    program = f"""
source {shlex.quote(str(SCRIPTS / "mlxbun.bash"))}
COMP_WORDS=({shlex.join(words)})
COMP_CWORD={len(words) - 1}
_mlxbun mlxbun {shlex.quote(words[-1])} {shlex.quote(words[-2])}
[[ ${{#COMPREPLY[@]}} -eq 0 ]] || printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return _run(["bash", "--norc", "-c", program], environ, folder)


def fish_replies(
    line: str, *, environ: Mapping[str, str], folder: Path | None = None
) -> dict[str, str]:
    """Return what fish offers for a line, each with its description."""
    source = f"source {shlex.quote(str(SCRIPTS / 'mlxbun.fish'))}"
    program = f"{source}; complete -C {shlex.quote(line)}"
    lines = _run(["fish", "--no-config", "-c", program], environ, folder)
    pairs = [reply.partition("\t") for reply in lines]
    return {value: told for value, _, told in pairs}


def _run(command: list[str], environ: Mapping[str, str], folder: Path | None) -> list[str]:
    done = subprocess.run(
        command,
        env=dict(environ),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()
