"""One look at everything that a plan is made from. Writes nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from core.errors import StoreCorrupt
from core.gc.company import find_uses, look_for_downloads
from core.gc.look import Obstacle, Ways, ground_at, look_at, look_into
from core.gc.own import find_leftovers
from core.gc.repository import LOCKS, kind_of, survey_locks, survey_repository
from core.gc.seen import Cache, Entry
from core.gc.shared import find_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.gc.look import Ground
    from core.paths import Paths

_NO_ACCESS_TIMES = getattr(os, "ST_NOATIME", 0)


def survey_cache(paths: Paths, model_folders: Sequence[str] = ()) -> Cache:
    """Return what the Hugging Face cache and our own folders hold. No cache is an empty one.

    Args:
        paths: our folders and the cache.
        model_folders: the setting of that name: what is linked from there is in use.

    Raises:
        StoreCorrupt: the cache folder cannot be read.
    """
    try:
        ground = ground_at(paths.hub_cache)
        entries = look_into(ground.root)
    except FileNotFoundError:
        return Cache(root=paths.hub_cache, exists=False, leftovers=find_leftovers(None, paths))
    except OSError as problem:
        raise StoreCorrupt(
            f"The Hugging Face cache {paths.hub_cache} cannot be read: {problem.strerror}.",
            hint="Make it a readable folder, or point HF_HUB_CACHE to another one.",
        ) from problem
    ways, store = Ways(), find_store(ground)
    downloads = look_for_downloads(paths)
    repositories = [entry for entry in entries if kind_of(entry.path.name)]
    return Cache(
        root=ground.root,
        by_access=not os.statvfs(ground.root).f_flag & _NO_ACCESS_TIMES,
        repositories=tuple(
            survey_repository(entry, ground=ground, ways=ways, store=store)
            for entry in repositories
        ),
        stray_locks=_stray_locks({entry.path.name for entry in repositories}, ground),
        payloads=tuple(store.payloads()) if store else (),
        leftovers=find_leftovers(ground, paths),
        uses=find_uses(ground.root, paths, model_folders),
        downloading=downloads.running,
        interrupted=downloads.interrupted,
    )


def _stray_locks(known: set[str], ground: Ground) -> tuple[Entry, ...]:
    """Return lock files of repositories that are not in the cache."""
    try:
        top = look_at(ground.root / LOCKS)
        ground.check(top)
        folders = look_into(top.path)
    except (OSError, Obstacle):
        return ()
    found: list[Entry] = []
    for folder in folders:
        if kind_of(folder.path.name) and folder.path.name not in known:
            found += survey_locks(folder.path, ground)[0]
    return tuple(found)
