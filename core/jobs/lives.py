"""Which processes live, asked for often."""

from __future__ import annotations

import os
import time

from core.servers import process_born

_KNOWN_SECONDS = 2.0


class Lives:
    """Tells when processes started, as `core.servers.process_born`, which takes a `ps` on macOS.

    That is asked for at most every two seconds for a process; whether there is one of its number,
    every time.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, float]] = {}

    def __call__(self, pid: int) -> str | None:
        """Return when a process started; None: it is gone."""
        if not _is_there(pid):
            return None
        born, asked = self._known.get(pid, ("", -_KNOWN_SECONDS))
        now = time.monotonic()
        if now - asked < _KNOWN_SECONDS:
            return born
        found = process_born(pid)
        if found is not None:
            self._known[pid] = (found, now)
        return found


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True
