"""What a person wants to be deleted."""

from __future__ import annotations

import re
from dataclasses import dataclass

_UNITS = {"h": 3600.0, "d": 24 * 3600.0, "w": 7 * 24 * 3600.0}


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What is to be in a plan; as it stands: everything that nobody needs."""

    repository: str | None = None
    """A repository or a part of its name: nothing else is in the plan."""
    older_than: float | None = None
    """Seconds since its last use that a thing must at least have; None: each sort its own."""
    keep: int = 0
    """Superseded snapshots of each repository that stay, the newest."""
    unique: bool = False
    """Also snapshots with files of which no other snapshot has any version."""


def parse_age(text: str) -> float:
    """Return the seconds that a person means by `12h`, `30d` or `2w`.

    Raises:
        ValueError: the text is no age.
    """
    found = re.fullmatch(r"\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*([hdw])\s*", text, re.IGNORECASE)
    if found is None:
        raise ValueError(f"{text!r} is no age")
    return float(found[1]) * _UNITS[found[2].lower()]
