"""What the words of `mlxbun bench` mean, and which options go with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Mapping

_BOTH = ("words", "json")
_OF_HISTORY = ("limit",)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What somebody wants."""

    history: bool
    """Earlier runs, rather than a new one."""
    model: str | None
    """Of which model."""


def read_words(words: list[str], options: Mapping[str, Any]) -> Asked:
    """Tell `[MODEL]` from `history [MODEL]`.

    Args:
        words: of the command line.
        options: every option by its parameter's name; None: not given.

    Raises:
        UsageProblem: too many words, or an option of the other form.
    """
    history = words[:1] == ["history"]
    models = words[1:] if history else words
    if len(models) > 1:
        raise UsageProblem(f"bench takes one MODEL, but got {len(models)}: {', '.join(models)}.")
    for name, value in options.items():
        if value is not None and name not in _BOTH and (name in _OF_HISTORY) != history:
            option = f"--{name.replace('_', '-')}"
            raise UsageProblem(
                f"{option} measures, and `bench history` only shows."
                if history
                else f"{option} belongs to `mlxbun bench history`."
            )
    return Asked(history=history, model=models[0] if models else None)
