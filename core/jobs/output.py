"""What a job's process writes to stdout and stderr, on its way into the log.

Both go to a file, so that a parent's end breaks no pipe and the last words of a process that
crashed are not lost with it. Whole lines of that file become `log` events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jobs.log import TEXT_LIMIT

if TYPE_CHECKING:
    from pathlib import Path

_CHUNK = 2**18


def read_output(path: Path, offset: int, *, whole: bool = False) -> tuple[list[str], int]:
    """Return the next lines from an offset on, and the offset behind them.

    Args:
        path: the file; where there is none, there are no lines.
        offset: where to go on.
        whole: nothing comes any more: what stands behind the last line's end is a line, too.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            chunk = file.read(_CHUNK)
    except OSError:
        return [], offset
    end = chunk.rfind(b"\n") + 1
    if not end and (whole or len(chunk) == _CHUNK):
        end = len(chunk)
    lines = chunk[:end].decode("utf-8", "replace").split("\n")
    return [shown for line in lines if (shown := as_shown(line))], offset + end


def as_shown(line: str) -> str:
    """Return a line as a terminal would leave it: of a bar that is drawn anew, the last one."""
    return line.rstrip("\r").rpartition("\r")[2].rstrip()[:TEXT_LIMIT]
