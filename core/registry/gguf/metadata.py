"""Typed reading of a GGUF file's metadata: what is missing or senseless is refused by its key."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from core.errors import BadModelFiles
from core.registry.gguf.container import HINT

if TYPE_CHECKING:
    from core.registry.gguf.container import GgufFile


def architecture(gguf: GgufFile) -> str:
    """Return the architecture as the file names it, or an empty text."""
    value = gguf.metadata.get("general.architecture")
    return value if isinstance(value, str) else ""


def integer(gguf: GgufFile, key: str, *, default: int | None = None, low: int = 1) -> int:
    """Return a whole number of the architecture's metadata, such as `block_count`.

    Raises:
        BadModelFiles: it is missing and has no default, or is not a number from `low` to 2**31.
    """
    name = f"{architecture(gguf)}.{key}"
    value = gguf.metadata.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**31:
        raise refusal(gguf, f"has {value!r:.40} for {name!r}, which must be a whole number")
    return value


def number(gguf: GgufFile, key: str, *, default: float | None = None) -> float:
    """Return a positive number of the architecture's metadata.

    Raises:
        BadModelFiles: it is missing and has no default, or is not a positive, finite number.
    """
    name = f"{architecture(gguf)}.{key}"
    value = gguf.metadata.get(name, default)
    known = isinstance(value, int | float) and not isinstance(value, bool)
    with np.errstate(over="ignore"):
        # float32 in the file: the shortest decimal that means it reads as its author wrote it.
        found = float(str(np.float32(value))) if known else math.nan
    if not 0 < found < math.inf:  # a float64 may be neither once it is rounded
        raise refusal(gguf, f"has {value!r:.40} for {name!r}, which must be a positive number")
    return found


def has(gguf: GgufFile, key: str) -> bool:
    """Return whether the architecture's metadata has a key."""
    return f"{architecture(gguf)}.{key}" in gguf.metadata


def refusal(gguf: GgufFile, what: str) -> BadModelFiles:
    """Return the error that says what a file is or has, as a clause without its subject."""
    return BadModelFiles(f"{gguf.path.name} {what}.", hint=HINT)
