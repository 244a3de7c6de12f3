"""Runs a command in a terminal of its own, presses keys, and returns what it wrote."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

COLUMNS, LINES = 96, 50
_SECONDS = 900.0
_STILL_SECONDS = 0.4


@dataclass(frozen=True, kw_only=True)
class Press:
    """Keys, and when to press them."""

    after: str
    """As soon as this stands there."""
    keys: str
    """What is pressed then."""


def run_in_terminal(
    command: Sequence[str], *, environ: Mapping[str, str], cwd: Path, presses: Sequence[Press] = ()
) -> str:
    """Return what a command writes to a terminal of `COLUMNS` columns until it ends.

    Raises:
        TimeoutError: it does not end, or what is waited for does not come.
    """
    process, terminal = pty.fork()
    if process == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        os.chdir(cwd)
        os.execvpe(command[0], list(command), dict(environ))
    try:
        return _read(terminal, list(presses))
    finally:
        os.close(terminal)
        _end(process)


def _read(terminal: int, presses: list[Press]) -> str:
    shown, seen = b"", 0
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        ready, _, _ = select.select([terminal], [], [], _STILL_SECONDS)
        if ready:
            try:
                chunk = os.read(terminal, 65536)
            except OSError:  # how Linux tells that the last writer has left
                chunk = b""
            if not chunk:
                return shown.decode("utf-8", "replace")
            shown += chunk
        elif presses and (at := shown.find(presses[0].after.encode(), seen)) >= 0:
            # What comes after the keys counts for the next ones.
            seen = max(at + 1, len(shown))
            os.write(terminal, presses.pop(0).keys.encode())
    raise TimeoutError(repr(shown[-500:]))


def _end(process: int) -> None:
    done, _ = os.waitpid(process, os.WNOHANG)
    if not done:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
