"""What an answer took, as commands print it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.engine.events import Usage


def plain_usage(usage: Usage) -> dict[str, Any]:
    """Return it as JSON values, without the clock of this process that only traces read.

    `repairs` is there only if there were any.
    """
    plain = {name: value for name, value in asdict(usage).items() if name != "timing"}
    return plain if plain.pop("repairs") == () else {**plain, "repairs": list(usage.repairs)}
