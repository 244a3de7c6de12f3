"""Checks and choices that need only headers, before a quantization waits for the accelerator.

Used by the command and by jobs. Imports no arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import UsageProblem
from core.fit.candidate import read_files
from core.quantize.budget import reach, with_width
from core.quantize.checks import check_quantize, require_supported

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.fit.host import Host
    from core.paths import Paths
    from core.quantize.checks import Outlook
    from core.quantize.recipe import Recipe
    from core.registry.resolve import ModelRef
    from core.settings import Settings

_DOUBT = 0.03  # of a bound: headers show less than the opened model


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A quantization that has passed all checks so far."""

    recipe: Recipe
    """The recipe, with the width that `fit` chose."""
    outlook: Outlook | None
    """What the headers tell; None: the model is the starter, which may have to be fetched."""
    note: str | None
    """The width that `fit` chose, in one sentence; None: `fit` is not used."""


def make_ready(
    recipe: Recipe, *, find_host: Callable[[], Host], settings: Settings, paths: Paths
) -> Ready:
    """Refuse a quantization that cannot begin, and choose its width where `fit` asks for that.

    Args:
        recipe: what was chosen.
        find_host: returns this machine; called only for `fit`.
        settings: the merged settings.
        paths: our folders and the Hugging Face cache.

    Raises:
        MlxbunError: as `check_quantize` and `with_width`; an architecture that mlx-lm does not
            load; a target that is out of reach.
    """
    note = None
    if recipe.fit is not None:
        chosen = with_width(recipe, host=find_host(), settings=settings, paths=paths)
        recipe, note = chosen.recipe, chosen.note
    outlook = check_quantize(recipe, settings=settings, paths=paths)
    if outlook is not None:
        require_supported(outlook.model)
        if recipe.target_bpw is not None:
            _require_reach(recipe, outlook.model)
    return Ready(recipe=recipe, outlook=outlook, note=note)


def _require_reach(recipe: Recipe, model: ModelRef) -> None:
    """Refuse a target that is clearly out of reach; the opened model decides the rest.

    Raises:
        UsageProblem: it is.
    """
    low, high = reach(read_files(model), recipe, recipe.form.group_size)
    target = recipe.target_bpw or 0.0
    if not low * (1 - _DOUBT) <= target <= high * (1 + _DOUBT):
        raise UsageProblem(
            f"target_bpw {target:g} is out of reach: this model takes {low:.2f} to {high:.2f} bits "
            "per weight with these candidates.",
            hint="Choose a target in that range, or other candidate_bits.",
        )
