"""From the folder that was picked in a browser to a path that can be served."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct, UnsetType

from commands.serve.wire.api import clean

if TYPE_CHECKING:
    from core.registry.locate import LocatedFolder

NOT_LOCATED = "Couldn't locate this folder on disk — paste the path instead."


class PickedFolder(Struct, kw_only=True):
    """What `POST /api/model/resolve-folder` takes."""

    folder_name: str | UnsetType = UNSET
    rel_path: str | UnsetType = UNSET


class ResolvedFolder(Struct, kw_only=True):
    """The folder's place."""

    ok: Literal[True] = True
    path: str
    repo_id: str | UnsetType = UNSET
    model_type: str | UnsetType = UNSET


def folder_body(found: LocatedFolder) -> ResolvedFolder:
    """Return the body that tells the place."""
    return ResolvedFolder(
        path=os.fsencode(found.folder).decode("utf-8", "replace"),
        repo_id=UNSET if found.repo_id is None else clean(found.repo_id),
        model_type=UNSET if found.model_type is None else clean(found.model_type),
    )
