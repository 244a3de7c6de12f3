"""Whether a model can be quantized, by its config and headers alone. Imports no arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import NotFound
from core.registry.architectures import find_mlx_lm, read_architectures
from core.registry.facts import read_place
from core.registry.places import Place
from core.registry.resolve import find_starter, resolve_model
from core.registry.support import judge

if TYPE_CHECKING:
    from core.paths import Paths
    from core.registry.resolve import ModelRef
    from core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Facts about a model before it is quantized."""

    model_id: str
    """Repo id, or the folder's name."""
    architecture: str | None
    """`model_type`; None: its config does not say."""
    size_bytes: int
    """Of the files in its folder."""
    problem: str | None
    """Why it cannot be quantized, in one sentence; None: it can."""


def local_model(name: str, *, paths: Paths, settings: Settings) -> ModelRef:
    """Return the model on this disk that a name stands for; nothing is fetched.

    Raises:
        MlxbunError: NotFound, Ambiguous, BadModelFiles, StoreCorrupt, UsageProblem.
    """
    if name != "starter":
        folders = settings.model_folders
        return resolve_model(name, hub_cache=paths.hub_cache, model_folders=folders)
    if (found := find_starter(hub_cache=paths.hub_cache)) is None:
        raise NotFound(
            "The starter model is not on this machine yet.",
            hint="`mlxbun download starter` fetches it.",
        )
    return found


def inspect_model(name: str, *, paths: Paths, settings: Settings) -> Inspection:
    """Return whether a model on this disk can be quantized: one that mlx-lm loads.

    Args:
        name: a folder, a repo id, or a part of one.
        paths: the Hugging Face cache.
        settings: `model_folders` counts.

    Raises:
        MlxbunError: as `local_model`.
    """
    model = local_model(name, paths=paths, settings=settings)
    facts = read_place(Place(name=model.model_id, folder=model.folder))
    verdict = judge(facts, read_architectures(find_mlx_lm()))
    return Inspection(
        model_id=model.model_id,
        architecture=facts.model_type,
        size_bytes=sum(file.stat().st_size for file in model.folder.iterdir() if file.is_file()),
        problem=None if verdict.supported else f"{model.model_id}: {verdict.reason}.",
    )
