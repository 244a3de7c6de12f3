"""The Hugging Face cache, read as it lies on disk and written as huggingface_hub writes it.

    models--org--name/
    ├── blobs/<hash>              the contents
    ├── snapshots/<commit>/<file> links into blobs/
    └── refs/main                 the commit that `main` stood for

Reading it ourselves keeps `mlxbun ls` light: importing huggingface_hub takes longer than that
command may. Does not download and does not know names other than repo ids.
"""

from __future__ import annotations

import errno
import hashlib
import json
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
    from collections.abc import Iterable, Iterator

UNFINISHED = "mlxbun-quantize-"
"""What the names of stages begin with that are kept after an interruption, to be resumed."""
OWN_REFS = "mlxbun"
"""The folder among a repository's refs that names the snapshots made on this machine."""

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


def publish_files(
    files: Path,
    *,
    repo_id: str,
    stage: Path,
    hub_cache: Path,
    commit: str | None = None,
    own: bool = False,
) -> Path:
    """Put a folder of files into the cache as the main snapshot of a repository.

    Interrupted, it can be called again with the same stage, and goes on.

    Args:
        files: a folder inside `stage`; its files are moved.
        repo_id: the repository it becomes.
        stage: a folder from `staging_folder`, or another one on the cache's disk.
        hub_cache: the cache.
        commit: what the snapshot is called (40 hexadecimal digits). It gets a ref of its own, which
            stays when a download moves `main`. None: named by its contents.
        own: give it such a ref also when it is named by its contents.

    Returns:
        The snapshot's folder.

    Raises:
        OSError: the cache cannot be written; readers see no part of it.
    """
    repo = stage / repo_folder(hub_cache, repo_id).name
    names = _sealed(files, stage / "sealed.json")
    own = own or commit is not None
    commit = commit or hashlib.sha1(repr(sorted(names.items())).encode()).hexdigest()
    snapshot = repo / "snapshots" / commit
    for folder in (repo / "blobs", repo / "refs", snapshot):
        folder.mkdir(parents=True, exist_ok=True)
    for name, digest in names.items():
        if (files / name).exists():
            (files / name).replace(repo / "blobs" / digest)
        pointer = snapshot / name
        if not pointer.is_symlink():
            pointer.parent.mkdir(parents=True, exist_ok=True)
            pointer.symlink_to(os.path.relpath(repo / "blobs" / digest, pointer.parent))
    _require_blobs(set(names.values()), (repo, hub_cache / repo.name), stage / "sealed.json")
    if own:
        _write_ref(repo / "refs" / OWN_REFS / commit[:12], commit)
    _write_ref(repo / "refs" / "main", commit)
    publish_repository(repo, hub_cache=hub_cache)
    return repo_folder(hub_cache, repo_id) / "snapshots" / commit


def own_snapshots(repository: Path) -> frozenset[str]:
    """Return the commits of a repository's snapshots that were made on this machine.

    A repository of the Hub has none: a mark inside a snapshot would travel with it.
    """
    found = []
    for ref in (repository / "refs" / OWN_REFS).glob("*"):
        with suppress(OSError, UnicodeDecodeError):  # a ref that a crash of the machine has torn
            found.append(ref.read_text(encoding="utf-8").strip())
    return frozenset(found)


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


def _merge(staged: Path, target: Path) -> None:
    # Blobs, then the links to them, and refs/ last, main at the very end: a reader follows them
    # the other way. Only our own refs come before the snapshots that they name: a kill in between
    # would leave a snapshot that looks like one of the Hub, and gc would take it.
    (target / "blobs").mkdir(parents=True, exist_ok=True)
    for blob in sorted((staged / "blobs").iterdir()):
        if not (target / "blobs" / blob.name).exists():
            blob.replace(target / "blobs" / blob.name)
    _move_refs(staged, target, sorted((staged / "refs" / OWN_REFS).glob("*")))
    for snapshot in sorted((staged / "snapshots").iterdir()):
        place = target / "snapshots" / snapshot.name
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            snapshot.rename(place)  # as a whole
        except OSError:
            _fill(place, snapshot)
    refs = [path for path in (staged / "refs").rglob("*") if path.is_file()]
    _move_refs(staged, target, sorted(refs, key=lambda path: (path.name == "main", path)))


def _move_refs(staged: Path, target: Path, refs: Iterable[Path]) -> None:
    for ref in refs:
        place = target / ref.relative_to(staged)
        place.parent.mkdir(parents=True, exist_ok=True)
        ref.replace(place)


def _fill(place: Path, snapshot: Path) -> None:
    """Add the files that a snapshot does not have yet."""
    for path in sorted(snapshot.rglob("*")):
        there = place / path.relative_to(snapshot)
        if (path.is_symlink() or path.is_file()) and not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            path.replace(there)


def _sealed(files: Path, record: Path) -> dict[str, str]:
    """Bring files to the disk and return their blobs' names, or what was found out before.

    Args:
        files: their folder.
        record: where it is written down before a file is moved.
    """
    if record.exists():
        known: dict[str, str] = json.loads(record.read_text(encoding="utf-8"))
        return known
    paths = sorted(path for path in files.rglob("*") if path.is_file())
    names = {path.relative_to(files).as_posix(): _seal(path) for path in paths}
    with atomic_write(record) as file:
        file.write(json.dumps(names).encode())
    return names


def _require_blobs(digests: set[str], repositories: tuple[Path, ...], record: Path) -> None:
    """Refuse to publish links to files that were deleted since they were sealed.

    Raises:
        OSError: one is gone; the record goes, too, so that the files are made anew.
    """
    for digest in digests:
        if not any((repository / "blobs" / digest).exists() for repository in repositories):
            record.unlink()
            raise FileNotFoundError(errno.ENOENT, "a finished file of it was deleted")


def _write_ref(ref: Path, commit: str) -> None:
    ref.parent.mkdir(parents=True, exist_ok=True)
    with ref.open("w", encoding="utf-8") as file:
        file.write(commit)
        file.flush()
        os.fsync(file.fileno())


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
        if path.name.startswith(UNFINISHED):
            continue
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
