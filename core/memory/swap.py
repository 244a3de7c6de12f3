"""Puts files in place so that nothing which an editor writes at the same moment is lost.

What lay at the place is never overwritten: it is exchanged with the new file (`renameat2` on Linux,
`renamex_np` on macOS) and can be looked at afterwards. Where a file system cannot exchange, the old
file is moved aside and the new one linked into the gap, which fails if something is there by then.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS: both are 2
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM)


def exchange(one: Path, other: Path) -> None:
    """Let two files trade places; `one` is ours, and only we write there.

    Raises:
        FileNotFoundError: `other` is gone.
        FileExistsError: an editor put a new file at `other` meanwhile; it stays there, and `one`
            is the file that lay there before.
        OSError: neither way works here.
    """
    system = _system_exchange()
    if system is not None:
        code = system(one, other)
        if code == 0:
            return
        if code not in _CANNOT:
            raise OSError(code, os.strerror(code), str(other))
    aside = aside_of(one)
    other.rename(aside)
    try:
        put_new(one, other)
    except FileExistsError:
        aside.rename(one)
        raise
    except OSError:
        if not other.exists():
            aside.rename(other)
        raise
    aside.rename(one)


def aside_of(one: Path) -> Path:
    """Return where `exchange` keeps a file for a moment where the system cannot exchange."""
    return one.with_name(f"{one.name}.aside")


def put_new(ours: Path, place: Path) -> None:
    """Put a file of ours where there must not be one; `ours` is gone then.

    Raises:
        FileExistsError: there is one; nothing has changed.
        OSError: the folder cannot be written.
    """
    try:
        os.link(ours, place, follow_symlinks=False)
    except OSError as problem:
        if problem.errno not in (*_CANNOT, errno.EMLINK):
            raise
        _copy_new(ours, place)  # a file system without hard links
    ours.unlink()


def _copy_new(ours: Path, place: Path) -> None:
    data = ours.read_bytes()
    with place.open("xb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            place.unlink(missing_ok=True)
            raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last through a power failure, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@functools.cache
def _system_exchange() -> Callable[[Path, Path], int] | None:
    """Return the system's way to exchange two names; it returns an errno, 0 for success."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        call = library.renamex_np if sys.platform == "darwin" else library.renameat2
    except (OSError, AttributeError):
        return None

    def swap(one: Path, other: Path) -> int:
        names = [ctypes.c_char_p(os.fsencode(each)) for each in (one, other)]
        flags = ctypes.c_uint(_EXCHANGE)
        here = ctypes.c_int(_AT_FDCWD)
        arguments = (*names, flags) if sys.platform == "darwin" else (
            here, names[0], here, names[1], flags
        )  # fmt: skip
        return 0 if call(*arguments) == 0 else ctypes.get_errno()

    return swap
