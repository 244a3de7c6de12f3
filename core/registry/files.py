"""Reading files that somebody else made: never more than was bargained for, and never waiting.

A model folder can hold anything under any name: a named pipe would wait for a writer for ever, a
device would never end, and a JSON file can be as large as the disk.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from core.errors import BadModelFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_OPENED_BY_NAME = (".json", ".jinja", ".txt", ".model", ".tiktoken", ".py", ".safetensors")

MOST_JSON = 64 * 2**20  # bytes; the largest index of weights that is known has 9 MB


@contextmanager
def open_regular(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    """Open a regular file, and yield it with its size in bytes.

    Raises:
        OSError: it cannot be opened, or is something else than a regular file.
    """
    _refuse_special(path.stat().st_mode)
    # It may have been exchanged since: do not wait for a pipe, and look again.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        _refuse_special(status.st_mode)
        yield file, status.st_size


def read_bytes(path: Path, *, limit: int = MOST_JSON) -> bytes:
    """Return what a regular file holds.

    Raises:
        OSError: it cannot be read, is no regular file, or holds more than `limit` bytes.
    """
    with open_regular(path) as (file, _):
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"it holds more than {limit} bytes")
    return content


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file, or None when there is no object in it.

    Raises:
        OSError: as `read_bytes`.
    """
    try:
        content = json.loads(read_bytes(path).decode())
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested beyond all measure
        return None
    return content if isinstance(content, dict) else None


def is_lfs_pointer(path: Path) -> bool:
    """Return whether a file holds the address of its content, not the content. Does not raise.

    Source: the Git LFS specification (a pointer is under 1024 bytes and begins with its version).
    """
    try:
        with open_regular(path) as (file, size):
            return size < 1024 and file.read(len(_LFS_POINTER)) == _LFS_POINTER
    except OSError:
        return False


def refuse_special_files(folder: Path) -> None:
    """Refuse a model folder in which a foreign reader would wait for ever.

    mlx-lm and transformers open every name they know without looking at what it is.

    Raises:
        BadModelFiles: it holds a pipe, a device or a socket under such a name.
        OSError: the folder cannot be read.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_OPENED_BY_NAME) and _is_special(entry):
                raise BadModelFiles(
                    f"{printable(entry.path, 300)} is not a regular file.",
                    hint="Delete it, or download the model again.",
                )


def _is_special(entry: os.DirEntry[str]) -> bool:
    try:
        mode = entry.stat().st_mode
    except FileNotFoundError:  # a link that leads nowhere is not opened either
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def printable(text: str, most: int = 80) -> str:
    """Return a name or a word from outside as it can be shown: without controls, and cut."""
    text = text if len(text) <= most else text[: most - 3] + "..."
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _refuse_special(mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise OSError(errno.EINVAL, f"it is {kind}")
