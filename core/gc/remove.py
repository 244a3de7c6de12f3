"""Taking things off the disk, below a ground and nowhere else.

Every folder on the way from the ground's root is opened by its name in the one before it, and never
through a link: whoever exchanges a folder for a link meanwhile gets nothing deleted behind it.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from core.gc.look import Obstacle, entry_of
from core.gc.seen import Form

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.gc.look import Ground
    from core.gc.seen import Entry

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FOLDER = (errno.ELOOP, errno.ENOTDIR)

CHANGED = "it has changed since"


def remove_file(ground: Ground, entry: Entry) -> int:
    """Take a file or a link off the disk, if it is still the one that was seen.

    Returns:
        The bytes that the disk gets back.

    Raises:
        Obstacle: it has changed, or does not lie in the ground.
        OSError: it is gone, or cannot be deleted.
    """
    name = entry.path.name
    with opened(ground, entry.path.parent) as folder:
        now = entry_of(entry.path, os.stat(name, dir_fd=folder, follow_symlinks=False))
        if now != entry or now.form is Form.FOLDER:
            raise Obstacle(CHANGED)
        os.unlink(name, dir_fd=folder)
    return now.size if now.names == 1 else 0


def move_folder(ground: Ground, source: Path, target: Path) -> None:
    """Give a folder another place on the same disk, in one step.

    Raises:
        Obstacle: one of the places does not lie in the ground.
        OSError: it is gone, the target is there, or it cannot be moved.
    """
    with opened(ground, source.parent) as here, opened(ground, target.parent) as there:
        os.rename(source.name, target.name, src_dir_fd=here, dst_dir_fd=there)


def remove_tree(ground: Ground, folder: Path) -> int:
    """Take a folder and everything in it off the disk; links in it are not followed.

    Returns:
        The bytes that the disk gets back.

    Raises:
        Obstacle: it does not lie in the ground, or another disk begins in it.
        OSError: it is gone, or a part cannot be deleted; what came before that is gone.
    """
    with opened(ground, folder.parent) as parent:
        return _remove_tree(ground, folder, parent)


def check_writable(*folders: Path) -> None:
    """Check that something can be deleted in all of some folders.

    Raises:
        PermissionError: in one of them nothing can.
    """
    for folder in folders:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


@contextmanager
def opened(ground: Ground, folder: Path) -> Iterator[int]:
    """Yield a descriptor of a folder in a ground.

    Raises:
        Obstacle: a link, a file or another disk is on the way, or it lies elsewhere.
        OSError: it is gone, or cannot be opened.
    """
    if not folder.is_relative_to(ground.root) or ".." in folder.parts:
        raise Obstacle("it lies elsewhere")
    descriptor, path = os.open(ground.root, _FOLDER), ground.root
    try:
        for part in folder.relative_to(ground.root).parts:
            path /= part
            below = _open(ground, path, descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _open(ground: Ground, path: Path, parent: int) -> int:
    try:
        descriptor = os.open(path.name, _FOLDER, dir_fd=parent)
    except OSError as problem:
        if problem.errno in _NO_FOLDER:
            raise Obstacle(f"{path.name} is no folder any more") from problem
        raise
    if os.fstat(descriptor).st_dev != ground.device or str(path) in ground.mounts:
        os.close(descriptor)
        raise Obstacle(f"another disk is mounted at {path.name}")
    return descriptor


def _remove_tree(ground: Ground, path: Path, parent: int) -> int:
    descriptor = _open(ground, path, parent)
    freed = 0
    try:
        with os.scandir(descriptor) as found:
            names = sorted(entry.name for entry in found)
        for name in names:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                freed += _remove_tree(ground, path / name, descriptor)
                continue
            os.unlink(name, dir_fd=descriptor)
            freed += status.st_size if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 else 0
    finally:
        os.close(descriptor)
    os.rmdir(path.name, dir_fd=parent)
    return freed
