"""Where models lie on this disk: repositories in the Hugging Face cache, and plain folders.

    models--org--name/            org/name/
    ├── blobs/<hash>              ├── config.json
    ├── snapshots/<commit>/…      └── model.safetensors
    └── refs/main

Looks at names, links and refs only; what is in a model's files is not opened. The cache is foreign
input: whatever is wrong with one repository is said of that one.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import StoreCorrupt
from core.registry.files import printable, read_bytes
from core.registry.snapshot import INDEX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PREFIX = "models--"

_ID_PART = re.compile(r"[A-Za-z0-9_.-]+")
_MOST_ID_PARTS = 2  # org/name
_LONGEST_REF = 1024  # bytes; a commit has 40
_MODEL_ENDINGS = (".safetensors", ".gguf")
_HELPERS = (".DS_Store", "Thumbs.db", "desktop.ini")  # huggingface_hub passes over them, too


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder that holds a model, or should: one snapshot of a repository, or a plain folder."""

    name: str
    """`org/name`, or a bare `name`."""
    folder: Path
    """Where its files lie; the repository's folder, when it has no snapshot."""
    commit: str | None = None
    """The snapshot's commit; None: it is no snapshot."""
    refs: tuple[str, ...] = ()
    """Branches and tags that stand for it."""
    repository: Path | None = None
    """Its repository in the Hugging Face cache; None: it is a plain folder."""
    problem: str | None = None
    """Why the folder cannot be looked into, as a clause; None: it can."""


def find_places(
    hub_cache: Path, model_folders: Sequence[str] = (), *, all_revisions: bool = False
) -> list[Place]:
    """Return every model: those in the cache by name, then those in plain folders, each name once.

    A plain folder whose name is taken is called by its path.

    Args:
        hub_cache: the Hugging Face cache.
        model_folders: the setting of that name.
        all_revisions: every snapshot of a repository, not only the one that its name stands for.

    Raises:
        StoreCorrupt: the cache folder cannot be read.
    """
    places: list[Place] = []
    for repository in repositories(hub_cache):
        places += snapshots(repository) if all_revisions else [canonical(repository)]
    taken = {place.name for place in places}
    for place in plain_folders(_expanded(model_folders)):
        name = str(place.folder) if place.name in taken else place.name
        taken.add(name)
        places.append(replace(place, name=name))
    return places


def repositories(hub_cache: Path) -> list[Path]:
    """Return the folders of the model repositories in the cache, by name. No cache is an empty one.

    Raises:
        StoreCorrupt: the cache folder cannot be read.
    """
    try:
        found = sorted(path for path in hub_cache.iterdir() if path.name.startswith(PREFIX))
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise StoreCorrupt(
            f"The Hugging Face cache {hub_cache} cannot be read: {problem.strerror}.",
            hint="Make it a readable folder, or point HF_HUB_CACHE to another one.",
        ) from problem
    return [path for path in found if path.name != PREFIX]


def name_of(repository: Path) -> str:
    """Return the repo id that a repository's folder stands for."""
    return repository.name.removeprefix(PREFIX).replace("--", "/")


def has_repo_id(repository: Path) -> bool:
    """Return whether a repository's folder is called as a repository of the Hub can be."""
    parts = repository.name.removeprefix(PREFIX).split("--")
    plain = all(part.strip(".") != "" and _ID_PART.fullmatch(part) for part in parts)
    return plain and len(parts) <= _MOST_ID_PARTS


def canonical(repository: Path) -> Place:
    """Return the snapshot that a repository's name stands for: that of `refs/main`.

    Without such a ref it is the newest one: a snapshot that was fetched by its commit has no ref.
    """
    try:
        refs = _refs(repository)
        commit = refs.get("main") or _newest(repository)
    except OSError as problem:
        return _unread(repository, f"it cannot be read ({problem.strerror})")
    if commit is None:
        return _unread(repository, "it has no snapshot")
    return _snapshot(repository, commit, _turned(refs).get(commit, ()))


def snapshots(repository: Path) -> list[Place]:
    """Return every snapshot of a repository: the canonical one first, then the newest first."""
    main = canonical(repository)
    try:
        commits = _commits(repository)
        refs = _turned(_refs(repository))
    except OSError:
        return [main]
    others = [commit for commit in commits if commit != main.commit]
    return [main, *(_snapshot(repository, commit, refs.get(commit, ())) for commit in others)]


def plain_folders(roots: Iterable[Path]) -> list[Place]:
    """Return the models in folders of models, each folder once.

    A root is a model itself, or holds models, or folders of models: `org/name`. A root that cannot
    be read is a place with a problem.
    """
    places: list[Place] = []
    seen: set[tuple[int, int]] = set()
    for place in (place for root in roots for place in _under(root)):
        try:
            status = place.folder.stat()
        except OSError:
            places.append(place)
            continue
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            places.append(place)
    return places


def is_unfinished(place: Place) -> bool:
    """Return whether a download of a repository was begun and is not over."""
    if place.repository is None:
        return False
    try:
        return any(path.suffix == ".incomplete" for path in (place.repository / "blobs").iterdir())
    except OSError:
        return False


def stray_link(place: Place) -> str | None:
    """Return a link of a snapshot that leads out of its repository, by name, or None.

    What such a link leads to is not the repository's, and whoever deletes or repairs the one must
    not touch the other.
    """
    if place.repository is None or place.commit is None:
        return None
    folder = place.folder.absolute()
    homes = (place.repository.absolute(), place.repository.resolve())
    for parent, folders, names in os.walk(folder):
        for path in (Path(parent, name) for name in (*folders, *names)):
            if path.is_symlink():
                target = Path(os.path.normpath(path.parent / path.readlink()))
                if not any(target.is_relative_to(home) for home in homes):
                    return printable(path.name)
    return None


def _snapshot(repository: Path, commit: str, refs: tuple[str, ...]) -> Place:
    folder = repository / "snapshots" / commit
    return Place(
        name=name_of(repository),
        folder=folder,
        commit=commit,
        refs=refs,
        repository=repository,
        problem=_obstacle(repository, folder),
    )


def _obstacle(repository: Path, folder: Path) -> str | None:
    """Return why a snapshot cannot be looked into, or None."""
    if not has_repo_id(repository):
        return "the name of its folder is no repo id"
    snapshot = f"its snapshot {printable(folder.name, 15)}"
    try:
        if not folder.is_dir():
            return f"{snapshot} is not there"
        if folder.is_symlink() and not folder.resolve().is_relative_to(repository.resolve()):
            return f"{snapshot} leads out of the cache"
    except (OSError, RuntimeError):
        return f"{snapshot} cannot be read"
    return None


def _unread(repository: Path, problem: str) -> Place:
    return Place(
        name=name_of(repository), folder=repository, repository=repository, problem=problem
    )


def _refs(repository: Path) -> dict[str, str]:
    """Return the commit of each ref; what is no ref is passed over.

    Raises:
        OSError: the repository cannot be read.
    """
    found: dict[str, str] = {}
    ahead: list[tuple[str, str | Path]] = [("", repository / "refs")]
    while ahead:
        prefix, folder = ahead.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append((f"{prefix}{entry.name}/", entry.path))
                    elif entry.name not in _HELPERS and (commit := _read_ref(Path(entry.path))):
                        found[prefix + entry.name] = commit
        except FileNotFoundError:
            continue
    return found


def _turned(refs: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the refs of each commit, sorted."""
    found: dict[str, list[str]] = {}
    for name in sorted(refs):
        found.setdefault(refs[name], []).append(name)
    return {commit: tuple(names) for commit, names in found.items()}


def _read_ref(path: Path) -> str | None:
    """Return the commit in a ref. One that is no plain name is damage, and counts as none."""
    try:
        commit = read_bytes(path, limit=_LONGEST_REF).decode("utf-8", "replace").strip()
    except OSError:
        return None
    plain = commit.isprintable() and commit not in ("", ".", "..") and "/" not in commit
    return commit if plain else None


def _newest(repository: Path) -> str | None:
    return next(iter(_commits(repository)), None)


def _commits(repository: Path) -> list[str]:
    """Return the snapshots that a repository holds, the newest first."""
    dated: list[tuple[float, str]] = []
    try:
        with os.scandir(repository / "snapshots") as found:
            for entry in found:
                with suppress(OSError):
                    if entry.is_dir():
                        dated.append((entry.stat().st_mtime, entry.name))
    except FileNotFoundError:
        return []
    return [name for _, name in sorted(dated, reverse=True)]


def _expanded(folders: Sequence[str]) -> Iterator[Path]:
    """Yield folders with `~` replaced, where there is such a user."""
    for folder in folders:
        path = Path(folder)
        with suppress(RuntimeError):
            path = path.expanduser()
        yield path


def _under(root: Path) -> Iterator[Place]:
    """Yield the models of one root."""
    try:
        if _is_model(root):
            yield Place(name=root.resolve().name or str(root), folder=root)
            return
        children = _subfolders(root)
    except (OSError, RuntimeError) as problem:
        told = getattr(problem, "strerror", None) or str(problem)
        yield Place(name=str(root), folder=root, problem=f"it cannot be read ({told})")
        return
    for child in children:
        with suppress(OSError):
            if _is_model(child):
                yield Place(name=child.name, folder=child)
                continue
            for inner in _subfolders(child):
                with suppress(OSError):
                    if _is_model(inner):
                        yield Place(name=f"{child.name}/{inner.name}", folder=inner)


def _is_model(folder: Path) -> bool:
    """Return whether a folder holds a model, or something that is meant to be one."""
    with os.scandir(folder) as found:
        return any(
            entry.name in ("config.json", INDEX) or entry.name.endswith(_MODEL_ENDINGS)
            for entry in found
        )


def _subfolders(folder: Path) -> list[Path]:
    with os.scandir(folder) as found:
        names = [entry.name for entry in found if entry.is_dir() and entry.name[:1] != "."]
    return [folder / name for name in sorted(names)]
