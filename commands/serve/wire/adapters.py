"""The bodies of the routes for adapters."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from commands.serve.wire.api import clean
from core.registry.adapters import bare_name

if TYPE_CHECKING:
    from pathlib import Path

    from core.engine.info import ModelInfo, MountedAdapter
    from core.train.shelf import AdapterCard


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
    base_model: Annotated[str | None, Meta(description="the model it was trained on, if known")]
    mounted: bool
    compatible: Annotated[bool, Meta(description="whether it was trained on the served model")]


class AvailableAdapters(Struct, kw_only=True):
    """The body of `GET /v1/adapters/available`."""

    adapters: list[AvailableRow]


def mounted_row(mounted: MountedAdapter, card: AdapterCard | None) -> MountedRow:
    """Return the row of a mounted adapter.

    Args:
        mounted: the adapter in memory.
        card: what its files say; None: they are gone.
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


def _same(left: Path, right: Path) -> bool:
    return os.path.realpath(left) == os.path.realpath(right)


def _path(folder: Path) -> str:
    return os.fsencode(folder.absolute()).decode("utf-8", "replace")
