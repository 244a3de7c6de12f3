"""Reading `Meta/ledger.jsonl` as bytes, within a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import StoreCorrupt
from core.memory.ledger import LEDGER
from core.registry.files import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_LEDGER = 64 * 2**20
"""Bytes of a ledger at most."""


def read_ledger(root: Path) -> bytes | None:
    """Return the bytes of a vault's ledger; None: it has none. Links are not followed.

    Raises:
        StoreCorrupt: the file cannot be read, or is larger than `LARGEST_LEDGER`.
    """
    path = root / LEDGER
    if path.is_symlink() or not path.is_file():
        return None
    try:
        return read_bytes(path, limit=LARGEST_LEDGER)
    except OSError as problem:
        raise StoreCorrupt(f"{path} cannot be read: {problem.strerror}.") from problem
