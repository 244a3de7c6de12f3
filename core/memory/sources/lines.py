"""JSON lines that other programs wrote, read one at a time within limits."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

from core.registry.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.memory.sources.raw import ReadLog

LONGEST_LINE = 32 * 2**20
"""Bytes of a line at most; longer ones count as broken."""
MOST_BYTES = 2**30
"""Bytes of a file at most; the rest is not read, and counted as skipped."""


def read_objects(path: Path, log: ReadLog) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects in a file of JSON lines, each with the number of its line, from 1.

    Lines that hold something else are counted as broken.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    with open_regular(path) as (file, _):
        for number, line in enumerate(_lines(file, log), 1):
            log.check()
            if line is not None and not line.strip():
                continue
            values = None if line is None else parse_object(line)
            if values is None:
                log.broken += 1
            else:
                yield number, values


def parse_object(data: bytes) -> dict[str, Any] | None:
    """Return the object that JSON in UTF-8 holds; None: it holds none."""
    try:
        values = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deeply
        return None
    return values if isinstance(values, dict) else None


def _lines(file: IO[bytes], log: ReadLog) -> Iterator[bytes | None]:
    """Yield the lines of a file; None stands for one that is too long."""
    left = MOST_BYTES
    while line := file.readline(LONGEST_LINE):
        left -= len(line)
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n") and left > 0:
                line = file.readline(LONGEST_LINE)
                left -= len(line)
            yield None
        else:
            yield line
        if left <= 0:
            log.skip(f"the rest of a file beyond {MOST_BYTES // 2**20} MiB")
            return
