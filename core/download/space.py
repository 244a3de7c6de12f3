"""Room on the disk, asked about before a transfer starts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from core.errors import DoesNotFit
from core.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def check_free_space(needs: Mapping[Path, int], *, what: str) -> None:
    """Check that every disk has room for what is about to be written to it.

    Args:
        needs: bytes by folder; a folder need not exist yet. Folders on one disk add up.
        what: what the room is for, in a sentence.

    Raises:
        DoesNotFit: a disk is too full.
        OSError: a disk cannot be asked.
    """
    disks: dict[int, tuple[Path, int]] = {}
    for folder, count in needs.items():
        place = _existing(folder)
        disk = place.stat().st_dev
        disks[disk] = (place, disks.get(disk, (place, 0))[1] + count)
    for place, need in disks.values():
        have = shutil.disk_usage(place).free
        if have < need:
            raise DoesNotFit(
                f"{what} needs {format_bytes(need)} of disk, and {place} has"
                f" {format_bytes(have)} left.",
                need=need,
                have=have,
                hint="Free some room, or set HF_HOME and MLXBUN_CACHE to another disk.",
            )


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
