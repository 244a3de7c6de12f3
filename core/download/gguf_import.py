"""`mlxbun import`: the model in a GGUF file becomes a repository in the Hugging Face cache.

The repository is one of this machine, under the organization `local` unless it is named: what came
from the Hub is never touched. Names appear when every file is on disk.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from core.download.names import MAIN, parse_name
from core.download.space import check_free_space
from core.errors import UsageProblem
from core.provenance import Origin, Provenance, Value, is_repo_id, write_provenance
from core.registry.cache import own_snapshots, publish_files, repo_folder, staging_folder
from core.registry.gguf import Prepared, Wishes, write
from core.registry.gguf.container import plain_stem
from core.registry.names import repository_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.progress import OnProgress

LOCAL = "local"
"""The organization of models that have none."""
_MARGIN = 2**20  # bytes for headers and folders
_HUB = "https://huggingface.co/"


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Where an import is."""

    name: str
    """The repository, or the folder."""
    folder: Path
    """Where config.json lies."""


def import_name(source: Path, name: str | None) -> str:
    """Return the repository that a file becomes.

    Args:
        source: the GGUF file.
        name: `org/name`, or a bare name; None: that of the file.

    Raises:
        UsageProblem: the name cannot be that of a repository.
    """
    if name is None:
        stem = re.sub(r"[^A-Za-z0-9._-]+|(?<=-)-+|(?<=\.)\.+", "-", plain_stem(source)).strip("-._")
        name = re.sub(r"-{2,}", "-", stem)[:96].rstrip("-._") or "model"
    parsed = parse_name(name if "/" in name else f"{LOCAL}/{name}")
    if parsed.revision != MAIN:
        raise UsageProblem(
            f"{name} names a revision, and an import has none.", hint="Leave out the @."
        )
    return parsed.repo_id


def check_place(repo_id: str, *, hub_cache: Path) -> None:
    """Check that a name is free, or that of a model that was imported before.

    Raises:
        UsageProblem: the cache has a repository of that name that came from elsewhere.
    """
    if not _is_ours(repo_folder(hub_cache, repo_id)):
        raise UsageProblem(
            f"{repo_id} is in the cache already, and was not made on this machine.",
            hint="Choose another name with --name ORG/NAME.",
        )


def _is_ours(repository: Path) -> bool:
    """Return whether a repository is not there, or holds nothing but what was made here."""
    if not repository.exists():
        return True
    own = own_snapshots(repository)
    try:
        names = [path.name for path in (repository / "snapshots").iterdir()]
    except OSError:
        return False
    return bool(names) and own.issuperset(names)


def import_into_cache(
    prepared: Prepared,
    wishes: Wishes,
    *,
    repo_id: str,
    hub_cache: Path,
    on_progress: OnProgress,
) -> Imported:
    """Write a prepared model as a repository in the Hugging Face cache.

    Raises:
        UsageProblem: the name is that of a repository that came from elsewhere.
        DoesNotFit: the disk has no room for it.
        BadModelFiles: tensors hold numbers that are out of range.
        OSError: the cache cannot be written; readers see no part of it.
    """
    check_place(repo_id, hub_cache=hub_cache)
    check_free_space({hub_cache: prepared.size + _MARGIN}, what="The model")
    with staging_folder(hub_cache) as stage:
        files = stage / "files"
        files.mkdir()
        write(prepared, files, on_progress=on_progress)
        write_provenance(files, _provenance(prepared, wishes))
        folder = publish_files(files, repo_id=repo_id, stage=stage, hub_cache=hub_cache, own=True)
    return Imported(name=repo_id, folder=folder)


def import_into_folder(
    prepared: Prepared, wishes: Wishes, *, target: Path, on_progress: OnProgress
) -> Imported:
    """Write a prepared model into a new folder, which appears whole or not at all.

    Raises:
        UsageProblem: the folder is there already.
        DoesNotFit: the disk has no room for it.
        BadModelFiles: tensors hold numbers that are out of range.
        OSError: the folder cannot be written.
    """
    if target.exists():
        raise UsageProblem(f"{target} exists already.", hint="Choose a new folder.")
    check_free_space({target: prepared.size + _MARGIN}, what="The model")
    with _appearing(target) as made:
        write(prepared, made, on_progress=on_progress)
        write_provenance(made, _provenance(prepared, wishes))
    return Imported(name=str(target), folder=target)


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """Give a folder that takes the target's name when all went well, and is gone if not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        made = scratch / "model"  # with the rights that a folder usually has
        made.mkdir()
        yield made
        made.replace(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _provenance(prepared: Prepared, wishes: Wishes) -> Provenance:
    facts = prepared.gguf.metadata
    base = _base(facts.get("general.base_model.0.repo_url"))
    given = facts.get("general.license")
    recipe: dict[str, Value] = {
        "imported from": prepared.gguf.path.name[:200],
        "tensors": tuple(
            f"{found.kind}: {found.tensors} as {found.stored} ({found.reason})"
            for found in prepared.outcomes
        )[:100],
    }
    if wishes.requantize is not None:
        recipe["requantized to bits"] = wishes.requantize
    return Provenance(
        base=base,
        relation="quantized" if base else None,
        license=given if isinstance(given, str) and 0 < len(given) <= 100 else None,
        recipe=recipe,
        versions={name: version(name) for name in ("mlxbun", "mlx-lm")},
    )


def _base(url: object) -> Origin | None:
    """Return the repository that a file names as its model's base, if it is one on the Hub."""
    if not isinstance(url, str) or not url.startswith(_HUB) or len(url) > 300:
        return None
    try:
        repo_id = repository_name(url).partition("@")[0]
    except UsageProblem:
        return None
    return Origin(repo_id=repo_id) if is_repo_id(repo_id) else None
