"""What the words of `mlxbun train` mean, and which options go with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import UsageProblem
from core.paths import expanded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What somebody wants."""

    model: str | None = None
    """To train this one; None: the one that the configuration file names."""
    watch: Path | None = None
    """To watch the training in this folder."""


def read_words(words: list[str], options: Mapping[str, Any]) -> Asked:
    """Tell `MODEL` from `watch DIR`.

    Args:
        words: of the command line.
        options: every option by its parameter's name; None and False: not given.

    Raises:
        UsageProblem: too many words or too few, or an option that does nothing.
    """
    if words[:1] != ["watch"]:
        if len(words) > 1:
            raise UsageProblem(f"train takes one MODEL, but got {len(words)}: {', '.join(words)}.")
        return Asked(model=words[0] if words else None)
    if len(words) != 2:
        raise UsageProblem("train watch takes one folder.", hint="Try: mlxbun train watch DIR")
    for name, value in options.items():
        if name != "json" and value not in (None, False):
            raise UsageProblem(f"--{name.replace('_', '-')} trains, and `train watch` only shows.")
    return Asked(watch=expanded(words[1]))
