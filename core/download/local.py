"""A download without network: a model that is complete on this disk needs none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.download.layout import RepoLayout
from core.download.plan import DownloadPlan, PlannedFile
from core.registry.facts import find_damage
from core.registry.places import is_unfinished, snapshots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.download.names import RepoName
    from core.registry.places import Place


def find_complete(name: RepoName, hub_cache: Path) -> DownloadPlan | None:
    """Return the plan of a model whose files are all here, or None.

    Complete means: config.json and every file of weights are whole, as every command that loads a
    model checks, and no download of the repository was left unfinished. Which other files the Hub
    holds cannot be known without asking it.
    """
    layout = RepoLayout(hub_cache=hub_cache, repo_id=name.repo_id)
    place = next(_called(name, layout), None)
    if place is None or place.commit is None or is_unfinished(place) or find_damage(place):
        return None
    return DownloadPlan(
        name=name, commit=place.commit, folder=place.folder, files=tuple(_files(place.folder))
    )


def _called(name: RepoName, layout: RepoLayout) -> Iterator[Place]:
    if layout.folder.is_dir():
        for place in snapshots(layout.folder):
            if name.revision in place.refs or name.revision == place.commit:
                yield place


def _files(folder: Path) -> Iterator[PlannedFile]:
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        size = path.stat().st_size
        yield PlannedFile(
            name=str(path.relative_to(folder)),
            size=size,
            etag=path.resolve().name,  # its blob; without symbolic links, its name
            present=size,
            is_here=True,
        )
