"""A job's log: a file with one JSON object a line, appended to by the job's process alone.

An event is one write to the system, so it is there as soon as it was written, whatever becomes of
the process. A line that a crash or a full disk has cut short is ended by the next write and passed
over by readers, and so is any other line that is no event. Knows files, not jobs.
"""

from __future__ import annotations

import json
import math
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Event = dict[str, Any]

TEXT_LIMIT = 32_000
"""Characters that one `log` event holds at most; more are cut."""

_CHUNK = 2**20  # bytes read at once; longer than any line
_TAIL = 2**17  # bytes in which the last line is sought


class LogWriter:
    """Appends events. Safe in any thread; never raises for what a disk does.

    Attributes:
        lost: events that could not be written and have not been told of yet.
    """

    def __init__(self, path: Path) -> None:
        """Name the file; it is made by the first event."""
        self.lost = 0
        self._path = path
        self._lock = threading.Lock()
        self._file: int | None = None
        self._torn = False

    def write(self, event: Mapping[str, Any]) -> bool:
        """Append an event and return whether it is there."""
        with self._lock:
            try:
                if self.lost:
                    self._append(encode_event(_of_lost(self.lost)) + b"\n")
                    self.lost = 0
                self._append(encode_event(event) + b"\n")
            except OSError:
                self.lost += 1
                return False
            return True

    def close(self) -> None:
        """Bring what was written onto the disk and let go of the file."""
        with self._lock:
            if self._file is not None:
                with suppress(OSError):
                    os.fsync(self._file)
                os.close(self._file)
                self._file = None

    def _append(self, line: bytes) -> None:
        if self._file is None:
            self._file = self._open()
        rest = memoryview(b"\n" + line if self._torn else line)
        while rest:
            written = os.write(self._file, rest)
            self._torn = True
            rest = rest[written:]
        self._torn = False

    def _open(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(file).st_size
        self._torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        return file


def read_events(path: Path, offset: int = 0) -> tuple[list[Event], int]:
    """Return the next events from an offset on, and the offset behind them.

    A call reads a part of a long log: nothing more is there once the offset stays. A last line
    without an end is left for a later call. Where there is no file, there are no events.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            chunk = file.read(_CHUNK)
    except OSError:
        return [], offset
    end = chunk.rfind(b"\n") + 1
    if not end and len(chunk) == _CHUNK:
        end = _CHUNK  # no line of ours is that long
    lines = chunk[:end].split(b"\n")
    return [event for line in lines if (event := _event(line)) is not None], offset + end


def last_event(path: Path) -> Event | None:
    """Return the last whole event of a log, or None."""
    try:
        size = path.stat().st_size
    except OSError:
        return None
    events, _ = read_events(path, max(0, size - _TAIL))
    return events[-1] if events else None


def encode_event(event: Mapping[str, Any]) -> bytes:
    """Return an event as a line without its end. A number that is none becomes null."""
    text = json.dumps(_plain(event), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _event(line: bytes) -> Event | None:
    """Return the event of a line; None: it is none."""
    if not line.startswith(b"{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("type"), str) else None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if callable(item := getattr(value, "item", None)):  # a number of NumPy's or MLX's
        return _plain(item())
    return str(value)


def _of_lost(count: int) -> Event:
    events = "1 event" if count == 1 else f"{count} events"
    return {"type": "log", "line": f"{events} could not be written here: the disk did not take it."}
