"""What a result tells of its making: `mlxbun.json` beside its weights. Imports no arrays."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from core.errors import BadModelFiles
from core.provenance import Origin, Provenance, is_repo_id, read_provenance, write_provenance
from core.quantize.place import is_snapshot
from core.quantize.recipe import TABLE
from core.registry.cache import own_snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from core.provenance import EvalFigure, Value
    from core.quantize.open import Opened
    from core.quantize.plan import Plan

# Paths of this machine, and what does not shape the result.
_UNTOLD = ("model_id", "output", "strict", "min_agreement", "max_kl")


def leave_record(
    folder: Path, opened: Opened, plan: Plan, *, bpw: float, figures: tuple[EvalFigure, ...] = ()
) -> None:
    """Write where a result comes from.

    Args:
        folder: the result's.
        opened: the run.
        plan: the forms that were written.
        bpw: its bits per weight.
        figures: what was measured of it.

    Raises:
        OSError: it cannot be written.
    """
    write_provenance(
        folder,
        Provenance(
            base=origin_of(opened.model.folder, opened.model.model_id, opened.paths.hub_cache),
            relation="quantized",
            recipe=_recipe(opened, plan, bpw),
            figures=figures,
            versions={name: version(name) for name in ("mlxbun", "mlx", "mlx-lm")},
        ),
    )


def origin_of(folder: Path, model_id: str, hub_cache: Path) -> Origin | None:
    """Return the repository that a model comes from; of one that was made here, its own origin."""
    name = model_id.partition("@")[0]
    cached = is_snapshot(folder, hub_cache)
    if cached and folder.name not in own_snapshots(folder.parent.parent):
        return Origin(repo_id=name, revision=folder.name) if is_repo_id(name) else None
    try:
        known = read_provenance(folder)
    except BadModelFiles:
        return None
    return known.base if known else None


def _recipe(opened: Opened, plan: Plan, bpw: float) -> dict[str, Value]:
    recipe = TABLE.as_json(opened.recipe)
    chosen: dict[str, Value] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in recipe.items()
        if name not in _UNTOLD and value is not None and value != _plain(TABLE.default(name))
    }
    if plan.default is not None:
        chosen |= plan.default.as_config()
    chosen["bits per weight"] = round(bpw, 4)
    if opened.outlook.packed_as is not None:
        chosen["source"] = f"quantized already ({opened.outlook.packed_as})"
    return chosen


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
