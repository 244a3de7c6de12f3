"""From the name of a folder, as a browser's folder picker tells it, to the model on this disk.

A browser says what a folder is called and what lies in it, never where it lies. Only the last part
of a name counts, so nothing outside the places of models can be named.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BadRequest
from core.registry.library import library
from core.registry.places import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from core.paths import Paths
    from core.registry.library import ModelCard
    from core.settings import Settings

_LONGEST = 255  # characters; no file system has longer names


@dataclass(frozen=True, kw_only=True)
class LocatedFolder:
    """A model's folder."""

    folder: Path
    """Where it lies."""
    repo_id: str | None = None
    """What the model is called; None: it is in no list of models."""
    model_type: str | None = None
    """The architecture's name; None: not known."""


def locate_folder(
    name: str, inside: str, *, paths: Paths, settings: Settings
) -> LocatedFolder | None:
    """Return the model folder that was picked, or None where there is none of that name.

    Args:
        name: the picked folder: `models--org--name`, a snapshot's commit, or a model's folder.
        inside: the path of a file in it, from the picked folder on; its folder may be the model's.
        paths: the Hugging Face cache and our folders.
        settings: `model_folders` counts.

    Raises:
        BadRequest: one of them is no name that a browser would tell.
        StoreCorrupt: the cache folder cannot be read.
    """
    picked = _parts(name, "folder_name")[-1:]
    holder = _parts(inside, "rel_path")[-2:-1]
    cards = library(paths, settings, all_revisions=True)
    for card in _fitting(cards, picked, holder):
        return LocatedFolder(folder=card.folder, repo_id=card.name, model_type=card.model_type)
    plain = [root / part for root in (paths.hub_cache, paths.cache) for part in picked]
    return next((LocatedFolder(folder=folder) for folder in plain if _is_model(folder)), None)


def _fitting(
    cards: Sequence[ModelCard], picked: Sequence[str], holder: Sequence[str]
) -> Iterator[ModelCard]:
    """Yield the cards that the names mean: repositories first, then snapshots, then last parts."""
    usable = [card for card in cards if _is_model(card.folder)]
    for part in picked:
        yield from (card for card in usable if card.in_cache and _repository(card) == part)
    for part in (*holder, *picked):
        yield from (card for card in usable if card.commit == part)
    for part in picked:
        yield from (card for card in usable if card.folder.name == part)
        yield from (card for card in usable if card.name.rpartition("/")[2] == part)


def _is_model(folder: Path) -> bool:
    try:
        return (folder / "config.json").is_file()
    except OSError:
        return False


def _repository(card: ModelCard) -> str:
    return PREFIX + card.name.replace("/", "--")


def _parts(path: str, field: str) -> list[str]:
    """Return the parts of a path, whichever way its slashes lean.

    Raises:
        BadRequest: it leads upwards, or no file system could hold it.
    """
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if any(part == ".." or "\0" in part or len(part) > _LONGEST for part in parts):
        raise BadRequest(
            f"{field} must be a name as a folder picker tells it, without `..`.", field=field
        )
    return parts
