"""The Hugging Face cache, read as it lies on disk and written as huggingface_hub writes it.

    models--org--name/
    ├── blobs/<hash>              the contents
    ├── snapshots/<commit>/<file> links into blobs/
    └── refs/main                 the commit that `main` stood for

Reading it ourselves keeps `mlxbun ls` light: importing huggingface_hub takes longer than that
command may. Does not download and does not know names other than repo ids.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.paths import atomic_write
from core.registry.facts import find_damage
from core.registry.places import PREFIX, canonical, repositories
from core.registry.survey import survey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_STAGE = "mlxbun-"
_STALE_SECONDS = 24 * 3600


@dataclass(frozen=True, kw_only=True)
class CachedModel:
    """One model repository in the cache, at its main revision."""

    repo_id: str
    """`org/name`, or a bare `name`."""
    commit: str | None
    """The revision, or None when the cache holds no snapshot of it."""
    folder: Path
    """Its snapshot; the repository's folder when there is none."""
    problem: str | None
    """Why it cannot be used, as a clause; None when it can."""


def list_models(hub_cache: Path) -> list[CachedModel]:
    """Return the model repositories in the cache, by name. No cache is an empty one.

    Opens each one's config.json and the headers of its weights; `core.registry.library` knows more,
    and keeps it.

    Raises:
        StoreCorrupt: the cache folder cannot be read.
    """
    return [
        CachedModel(
            repo_id=place.name,
            commit=place.commit,
            folder=place.folder,
            problem=find_damage(place),
        )
        for place in map(canonical, repositories(hub_cache))
    ]


def snapshot_size(folder: Path) -> int:
    """Return the bytes of the distinct files that a snapshot's links lead to."""
    try:
        return survey(folder).size_bytes
    except OSError:
        return 0


def repo_folder(hub_cache: Path, repo_id: str) -> Path:
    """Return where the cache keeps a model repository."""
    return hub_cache / (PREFIX + repo_id.replace("/", "--"))


@contextmanager
def staging_folder(hub_cache: Path) -> Iterator[Path]:
    """Yield a folder on the cache's own disk that no reader of the cache looks into.

    It lies under `.locks`, which huggingface_hub skips when it scans, and goes with the block.

    Raises:
        OSError: the cache cannot be written.
    """
    parent = hub_cache / ".locks"
    parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(parent)
    with tempfile.TemporaryDirectory(dir=parent, prefix=_STAGE) as stage:
        yield Path(stage)


def publish_files(files: Path, *, repo_id: str, stage: Path, hub_cache: Path) -> Path:
    """Put a folder of files into the cache as the main snapshot of a repository.

    Args:
        files: a flat folder inside `stage`; its files are moved.
        repo_id: the repository it becomes.
        stage: a folder from `staging_folder`.
        hub_cache: the cache.

    Returns:
        The snapshot's folder.

    Raises:
        OSError: the cache cannot be written; readers see no part of it.
    """
    repo = stage / repo_folder(hub_cache, repo_id).name
    names = {path.name: _seal(path) for path in sorted(files.iterdir())}
    commit = _commit_of(names)
    snapshot = repo / "snapshots" / commit
    for folder in (repo / "blobs", repo / "refs", snapshot):
        folder.mkdir(parents=True)
    for name, digest in names.items():
        (files / name).rename(repo / "blobs" / digest)
        (snapshot / name).symlink_to(Path("..", "..", "blobs", digest))
    (repo / "refs" / "main").write_text(commit)
    publish_repository(repo, hub_cache=hub_cache)
    return repo_folder(hub_cache, repo_id) / "snapshots" / commit


def is_published(repo: Path) -> bool:
    """Return whether every snapshot of a repository was made by `publish_files`, on any machine.

    The name of such a snapshot follows from its files; that of one from the Hub does not.
    """
    try:
        snapshots = list((repo / "snapshots").iterdir())
        made = [_commit_of(_blobs(snapshot)) == snapshot.name for snapshot in snapshots]
    except OSError:
        return False
    return bool(made) and all(made)


def publish_repository(staged: Path, *, hub_cache: Path) -> None:
    """Move a whole repository folder from a stage into the cache, or add it to the one there.

    Whoever comes second to the same name loses nothing: files that are there already stay.

    Raises:
        OSError: the cache cannot be written.
    """
    target = hub_cache / staged.name
    try:
        staged.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        _merge(staged, target)


def _commit_of(names: Mapping[str, str]) -> str:
    """Return the name of the snapshot that holds files, by their names and blobs."""
    return hashlib.sha1(repr(sorted(names.items())).encode()).hexdigest()


def _blobs(snapshot: Path) -> dict[str, str]:
    return {path.name: path.readlink().name for path in snapshot.iterdir()}


def _merge(staged: Path, target: Path) -> None:
    refs = staged / "refs"
    # Blobs, then the links to them, and refs/ last: a reader follows them the other way.
    for part in ("blobs", "snapshots"):
        for path in sorted((staged / part).rglob("*")):
            place = target / path.relative_to(staged)
            if path.is_symlink() or path.is_file():
                place.parent.mkdir(parents=True, exist_ok=True)
                if not place.exists():
                    path.replace(place)
    for ref in (path for path in refs.rglob("*") if path.is_file()):
        with atomic_write(target / ref.relative_to(staged)) as file:
            file.write(ref.read_bytes())


def _seal(path: Path) -> str:
    """Bring a file safely to disk and return the name that the Hub would give its blob."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if path.suffix == ".safetensors":
            return hashlib.file_digest(file, "sha256").hexdigest()
        content = file.read()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _remove_stale(parent: Path) -> None:
    """Remove stages that a killed process left, once they are a day old."""
    import shutil

    for path in parent.glob(f"{_STAGE}*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
