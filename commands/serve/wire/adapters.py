"""What the protocol says of adapters, as it stands on the wire."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from commands.serve.wire.api import clean

if TYPE_CHECKING:
    from pathlib import Path

    from core.engine.info import ModelInfo, MountedAdapter
    from core.train.shelf import AdapterCard

_SNAPSHOT = re.compile(r"models--([^/]+)/snapshots/[^/]+/*$")


class MountedRow(Struct, kw_only=True):
    """An adapter on the served model."""

    id: str
    path: str
    rank: int | None
    scale: float | None
    size_bytes: Annotated[int, Meta(description="of its weights on disk")]
    mounted_layers: int
    ram_bytes: Annotated[int, Meta(description="memory that its matrices take")]


class MountedAdapters(Struct, kw_only=True):
    """The body of `GET /v1/adapters`."""

    adapters: list[MountedRow]


class AvailableRow(Struct, kw_only=True):
    """An adapter on this disk."""

    id: str
    path: str
    rank: int | None
    scale: float | None
    base_model: Annotated[str | None, Meta(description="what it was trained on, where it says so")]
    mounted: bool
    compatible: Annotated[bool, Meta(description="whether it was trained on the served model")]


class AvailableAdapters(Struct, kw_only=True):
    """The body of `GET /v1/adapters/available`."""

    adapters: list[AvailableRow]


def mounted_row(mounted: MountedAdapter, card: AdapterCard | None) -> MountedRow:
    """Return the row of a mounted adapter.

    Args:
        mounted: as it lies in memory.
        card: what its files say; None: they are not there any more.
    """
    return MountedRow(
        id=clean(mounted.folder.name),
        path=_path(mounted.folder),
        rank=card.rank if card else None,
        scale=card.scale if card else None,
        size_bytes=card.size_bytes if card else 0,
        mounted_layers=mounted.layers,
        ram_bytes=mounted.nbytes,
    )


def available_row(card: AdapterCard, info: ModelInfo) -> AvailableRow:
    """Return the row of an adapter on this disk.

    Args:
        card: what its files say.
        info: the served model.
    """
    mounted = info.mounted is not None and _same(info.mounted.folder, card.folder)
    return AvailableRow(
        id=clean(card.name),
        path=_path(card.folder),
        rank=card.rank,
        scale=card.scale,
        base_model=None if card.base is None else clean(card.base),
        mounted=mounted,
        compatible=card.base is None or bare_name(card.base) == bare_name(info.model_id),
    )


def bare_name(model: str) -> str:
    """Return a model's name without its owner, folder or revision.

    It may be given as a repository, as a folder, or as a snapshot in the Hugging Face cache.
    """
    found = _SNAPSHOT.search(model)
    name = found[1].replace("--", "/") if found else model.rstrip("/")
    return name.rpartition("/")[2].partition("@")[0]


def _same(left: Path, right: Path) -> bool:
    return os.path.realpath(left) == os.path.realpath(right)


def _path(folder: Path) -> str:
    return os.fsencode(folder.absolute()).decode("utf-8", "replace")
