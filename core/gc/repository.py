"""One repository of the cache as it lies on disk. Whatever cannot be told for sure is a problem.

    models--org--name/
    ├── blobs/<etag>                contents, or links into the store that repositories share
    ├── blobs/<etag>.….incomplete   the beginning of one: ours (`core.download.layout`) or theirs
    ├── snapshots/<commit>/<file>   links into blobs/, or files where a disk has no links
    ├── refs/<revision>             a commit
    └── .mlxbun-gc-<hex>/           a snapshot that a crash has kept from being deleted

Nothing may be deleted in a repository of which a part cannot be read: what it holds might be needed
by what cannot be seen.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from core.gc.locks import is_held
from core.gc.look import (
    Obstacle,
    Ways,
    content_of,
    look_at,
    look_at_whole,
    look_into,
    walk,
)
from core.gc.seen import Blob, Entry, Form, Repository, Snapshot, SnapshotFile
from core.paths import TEMPORARY
from core.registry.files import printable, read_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from core.gc.look import Ground
    from core.gc.shared import SharedStore

KINDS = {"models": "model", "datasets": "dataset", "spaces": "space", "kernels": "kernel"}
"""Repository types by the beginning of a folder's name. Source: huggingface_hub's constants."""

TRASH = ".mlxbun-gc-"
"""What the name of a snapshot begins with while it is being deleted."""

LOCKS = ".locks"

INCOMPLETE = ".incomplete"

_HELPERS = (".DS_Store", "Thumbs.db", "desktop.ini")  # huggingface_hub passes over them, too
_LONGEST_REF = 1024  # bytes; a commit has 40
_TRASH_NAME = re.compile(re.escape(TRASH) + r"[0-9a-f]{16}")


def kind_of(name: str) -> tuple[str, str] | None:
    """Return the type and the repo id that a folder's name stands for; None: it is no repository.

    Source: huggingface_hub's `_scan_cached_repo`.
    """
    prefix, _, rest = name.partition("--")
    return (KINDS[prefix], rest.replace("--", "/")) if prefix in KINDS and rest else None


def survey_repository(
    entry: Entry, *, ground: Ground, ways: Ways, store: SharedStore | None
) -> Repository:
    """Return what a repository holds, or why nothing in it may be deleted.

    Args:
        entry: its folder; `kind_of` knows its name.
        ground: the cache.
        ways: follows its links.
        store: the contents that repositories share, if there is such a store.
    """
    kind, repo_id = kind_of(entry.path.name) or ("model", entry.path.name)
    locks, busy = survey_locks(ground.root / LOCKS / entry.path.name, ground)
    bare = Repository(path=entry.path, kind=kind, repo_id=repo_id, locks=locks, busy=busy)
    try:
        ground.check(entry)
        return _filled(bare, ground, ways, store)
    except Obstacle as obstacle:
        return replace(bare, problem=str(obstacle))
    except OSError as error:
        return replace(bare, problem=f"it cannot be read ({error.strerror})")


def read_snapshots(repository: Path, ground: Ground, ways: Ways) -> tuple[Snapshot, ...]:
    """Return the snapshots of a repository, the newest first.

    Raises:
        Obstacle, OSError: there is one that cannot be told.
    """
    top = look_at(repository / "snapshots")
    ground.check(top)
    entries = [entry for entry in look_into(top.path) if entry.path.name not in _HELPERS]
    found = [read_snapshot(entry, ground, ways) for entry in entries]
    return tuple(sorted(found, key=lambda each: (each.entry.modified_ns, each.commit))[::-1])


def read_snapshot(entry: Entry, ground: Ground, ways: Ways) -> Snapshot:
    """Return one snapshot. What a snapshot that is a link itself holds is read, too.

    Raises:
        Obstacle, OSError: a part of it cannot be told.
    """
    if entry.form in (Form.FILE, Form.OTHER):
        raise Obstacle(f"there is a file among its snapshots, {printable(entry.path.name)}")
    parts: list[Entry] = []
    if entry.form is Form.LINK:
        parts = _behind_link(entry)
    else:
        ground.check(entry)
        walk(entry, ground, parts.append)
    strange = next((part for part in parts if part.form is Form.OTHER), None)
    obstacle = None
    if entry.form is Form.LINK:
        obstacle = "it is a link to another folder"
    elif strange is not None:
        obstacle = f"{printable(strange.path.name)} in it is no file"
    files = [_file(part, entry.path, ways) for part in parts if part.form is not Form.FOLDER]
    return Snapshot(
        commit=entry.path.name,
        entry=entry,
        files=tuple(files),
        folders=tuple(part for part in parts if part.form is Form.FOLDER),
        obstacle=obstacle,
    )


def read_refs(repository: Path, ground: Ground) -> tuple[frozenset[str], tuple[Entry, ...]]:
    """Return the commits that refs stand for, and files that crashes have left among them.

    Raises:
        Obstacle, OSError: a ref cannot be read, so it may stand for anything.
    """
    try:
        top = look_at(repository / "refs")
    except FileNotFoundError:
        return frozenset(), ()
    ground.check(top)
    parts: list[Entry] = []
    walk(top, ground, parts.append)
    files = [p for p in parts if p.form is not Form.FOLDER and p.path.name not in _HELPERS]
    left = {p.path: p for p in files if p.form is Form.FILE and TEMPORARY.fullmatch(p.path.name)}
    commits = (_commit(part.path) for part in files if part.path not in left)
    return frozenset(commits), tuple(left.values())


def survey_locks(folder: Path, ground: Ground) -> tuple[tuple[Entry, ...], bool]:
    """Return a repository's lock files that nobody holds, and whether somebody holds one."""
    try:
        entry = look_at(folder)
        ground.check(entry)
        found = [lock for lock in look_into(folder) if lock.form is Form.FILE]
    except (OSError, Obstacle):
        return (), False
    locks = [lock for lock in found if lock.path.suffix == ".lock"]
    held = {lock.path for lock in locks if is_held(lock.path)}
    return tuple(lock for lock in locks if lock.path not in held), bool(held)


def _filled(bare: Repository, ground: Ground, ways: Ways, store: SharedStore | None) -> Repository:
    """Return a repository with what it holds.

    Raises:
        Obstacle, OSError: a part of it cannot be told.
    """
    try:
        snapshots = read_snapshots(bare.path, ground, ways)
    except FileNotFoundError:
        raise Obstacle("it has no folder of snapshots") from None
    refs, temporary = read_refs(bare.path, ground)
    trash = [each for each in look_into(bare.path) if _TRASH_NAME.fullmatch(each.path.name)]
    inside = _inside_blobs(bare.path, ground)
    return replace(
        bare,
        refs=refs,
        snapshots=snapshots,
        blobs=tuple(_blob(each, store) for each in inside if each.path.suffix != INCOMPLETE),
        partials=tuple(each for each in inside if each.path.suffix == INCOMPLETE),
        leftovers=(*temporary, *(look_at_whole(each, ground) for each in trash)),
    )


def _inside_blobs(repository: Path, ground: Ground) -> list[Entry]:
    try:
        top = look_at(repository / "blobs")
    except FileNotFoundError:
        return []
    ground.check(top)
    return [
        each
        for each in look_into(top.path)
        if each.path.name not in _HELPERS and each.form in (Form.FILE, Form.LINK)
    ]


def _blob(entry: Entry, store: SharedStore | None) -> Blob:
    payload = store.payload_of(entry) if store and entry.form is Form.LINK else None
    return Blob(entry=entry, payload=payload)


def _file(entry: Entry, snapshot: Path, ways: Ways) -> SnapshotFile:
    is_link = entry.form is Form.LINK
    hop, said = ways.follow(entry.path) if is_link else (None, None)
    return SnapshotFile(
        name=str(entry.path)[len(str(snapshot)) + 1 :],
        entry=entry,
        hop=hop,
        said=said,
        content=content_of(entry.path) if is_link else entry.key,
    )


def _behind_link(entry: Entry) -> list[Entry]:
    """Return the files that a snapshot which is a link shows; they are only read."""
    try:
        return [each for each in look_into(entry.path) if each.form is not Form.FOLDER]
    except FileNotFoundError:
        return []


def _commit(ref: Path) -> str:
    """Return the commit in a ref; huggingface_hub takes the whole file for it.

    Raises:
        OSError: it cannot be read.
    """
    return read_bytes(ref, limit=_LONGEST_REF).decode("utf-8", "surrogateescape").strip()
