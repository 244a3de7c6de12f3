"""What lies at a path: a model, an adapter, a data set, or something that we do not know."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from core.errors import BadModelFiles, NotFound
from core.registry.adapters import CONFIG as ADAPTER_CONFIG
from core.registry.adapters import WEIGHTS as ADAPTER_WEIGHTS
from core.registry.adapters import read_form
from core.registry.files import printable
from core.registry.snapshot import INDEX, find_problem
from core.registry.weights import WEIGHTS

if TYPE_CHECKING:
    from core.upload.target import RepoType

Kind = Literal["model", "adapter", "dataset", "files"]
"""`files`: nothing that we know, uploaded because the type was given."""

DATA_ENDINGS = (".jsonl", ".csv", ".parquet")

_DEEPEST = 3  # levels of folders in which data are looked for
FORCE_HINT = "Name its type to upload it as it is: --type model or --type dataset."


def detect_kind(source: Path, wanted: RepoType | None = None) -> Kind:
    """Return what a path holds.

    Args:
        source: a folder, or a file of data.
        wanted: the type that the user names; it overrides what the files look like.

    Raises:
        NotFound: there is nothing at the path.
        BadModelFiles: it holds nothing that we know, or a model that is not whole.
    """
    if not source.exists():
        gone = source.is_symlink()
        said = "points to a file that is gone" if gone else "does not exist"
        raise NotFound(
            f"{_shown(source)} {said}.",
            hint="Name a folder that holds a model, an adapter or a data set, or a file of data.",
        )
    found = _kind_of_folder(source) if source.is_dir() else _kind_of_file(source)
    if wanted is None:
        if isinstance(found, str):
            return found
        raise found
    return _forced(found, wanted)


def repo_type_of(kind: Kind, wanted: RepoType | None = None) -> RepoType:
    """Return the type of repository that a kind is uploaded to."""
    return wanted or ("dataset" if kind == "dataset" else "model")


def _forced(found: Kind | BadModelFiles, wanted: RepoType) -> Kind:
    if found == "dataset" or (wanted == "dataset"):
        return "dataset" if wanted == "dataset" else "files"
    return found if isinstance(found, str) else "files"


def _kind_of_folder(folder: Path) -> Kind | BadModelFiles:
    """Return the kind of a folder, or why it has none."""
    try:
        names = set(os.listdir(folder))  # noqa: PTH208 - names alone
    except OSError as problem:
        return BadModelFiles(
            f"{_shown(folder)} cannot be read: {problem.strerror}.",
            hint="Make it readable for you.",
        )
    if "config.json" in names and (INDEX in names or fnmatch.filter(names, WEIGHTS)):
        return _model(folder)
    if ADAPTER_CONFIG in names:
        return _adapter(folder) if ADAPTER_WEIGHTS in names else _no_adapter(folder, names)
    if "config.json" in names and any(name.endswith(".safetensors") for name in names):
        return _model(folder)
    if _holds_data(folder):
        return "dataset"
    return _unknown(folder, names)


def _model(folder: Path) -> Kind | BadModelFiles:
    if (problem := find_problem(folder)) is None:
        return "model"
    return BadModelFiles(
        f"{_shown(folder)} looks like a model, but {problem}.",
        hint=f"Complete it. {FORCE_HINT}",
    )


def _adapter(folder: Path) -> Kind | BadModelFiles:
    try:
        read_form(folder)
    except BadModelFiles as problem:
        return BadModelFiles(problem.message, hint=f"Train it again. {FORCE_HINT}")
    return "adapter"


def _no_adapter(folder: Path, names: set[str]) -> BadModelFiles:
    other = "adapter_model.safetensors" in names
    said = "in PEFT's form, not in MLX's" if other else f"without {ADAPTER_WEIGHTS}"
    return BadModelFiles(f"{_shown(folder)} holds an adapter {said}.", hint=FORCE_HINT)


def _unknown(folder: Path, names: set[str]) -> BadModelFiles:
    if not names:
        return BadModelFiles(
            f"{_shown(folder)} is empty.",
            hint="Name a folder that holds a model, an adapter or a data set.",
        )
    weights = any(name.endswith(".safetensors") for name in names)
    said = find_problem(folder) if weights or "config.json" in names else None
    return BadModelFiles(
        f"{_shown(folder)} holds neither a model (config.json and safetensors), nor an adapter"
        f" ({ADAPTER_CONFIG} and {ADAPTER_WEIGHTS}), nor data ({', '.join(DATA_ENDINGS)})"
        + (f": {said}." if said else "."),
        hint=FORCE_HINT,
    )


def _kind_of_file(file: Path) -> Kind | BadModelFiles:
    if file.name.lower().endswith(DATA_ENDINGS):
        return "dataset"
    return BadModelFiles(
        f"{_shown(file)} is a file, and a single file is uploaded as data only"
        f" ({', '.join(DATA_ENDINGS)}).",
        hint="Name the folder that it belongs to, or --type dataset for a file of data.",
    )


def _holds_data(folder: Path) -> bool:
    for parent, folders, names in os.walk(folder):
        depth = len(Path(parent).relative_to(folder).parts)
        folders[:] = [name for name in folders if name[:1] != "." and depth < _DEEPEST]
        if any(name.lower().endswith(DATA_ENDINGS) and name[:1] != "." for name in names):
            return True
    return False


def _shown(path: Path) -> str:
    return printable(str(path), 200)
