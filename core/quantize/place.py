"""Where the result of a quantization goes, and what it is called. Imports no arrays.

By default it becomes a repository of the Hugging Face cache that no Hub has:
`<org>/<name>-OptiQ-<suffix>`. Its snapshots are told from those of the Hub by refs of our own
(`refs/mlxbun/<commit>`): these keep them from being taken for superseded, and a download of that
name, which moves `refs/main`, leaves them where they are.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import UsageProblem
from core.paths import expanded
from core.registry.cache import UNFINISHED, own_snapshots, repo_folder
from core.registry.files import printable

if TYPE_CHECKING:
    from core.quantize.recipe import Recipe
    from core.registry.resolve import ModelRef

_LOCAL = "local"
_LONGEST_NAME = 96  # characters of a part of a repo id
_LONGEST_FILE_NAME = 255  # bytes, on all usual disks
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.]+")
_DOTS = re.compile(r"\.{2,}")


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a result goes."""

    repo_id: str | None
    """The repository that it becomes in the cache; None: it goes into a plain folder."""
    folder: Path
    """The plain folder, or the repository's."""
    stage: Path
    """Where it is made, on the same disk."""
    hub_cache: Path
    """The Hugging Face cache."""

    @property
    def name(self) -> str:
        """What to call it."""
        return self.repo_id or str(self.folder)

    def snapshot(self, commit: str) -> Path:
        """Return the folder that holds the model at the end."""
        return self.folder if self.repo_id is None else self.folder / "snapshots" / commit

    def is_done(self, commit: str) -> bool:
        """Return whether the result is there already, and is what its name stands for."""
        if self.repo_id is None or commit not in own_snapshots(self.folder):
            return False
        try:
            main = (self.folder / "refs" / "main").read_text(encoding="utf-8").strip()
        except OSError:
            return False
        return main == commit and self.snapshot(commit).is_dir()


def choose_target(source: ModelRef, recipe: Recipe, *, hub_cache: Path) -> Target:
    """Return where the result goes; nothing is made yet.

    Args:
        source: the model that is quantized.
        recipe: what was chosen; `fit` has become `bits`.
        hub_cache: the Hugging Face cache.
    """
    if recipe.output is not None:
        folder = expanded(recipe.output).absolute()
        stage = folder.parent / f".{UNFINISHED}{_short(str(folder))}"
        return Target(repo_id=None, folder=folder, stage=stage, hub_cache=hub_cache)
    ending = f"-OptiQ-{suffix(recipe)}"
    repo_id = _base_name(source, _LONGEST_NAME - len(ending)) + ending
    return Target(
        repo_id=repo_id,
        folder=repo_folder(hub_cache, repo_id),
        stage=hub_cache / ".locks" / f"{UNFINISHED}{_short(repo_id)}",
        hub_cache=hub_cache,
    )


def check_target(target: Target, source: Path) -> None:
    """Refuse a place that is taken, or that lies in the source or around it.

    Raises:
        UsageProblem: it is, or does.
    """
    if target.repo_id is None:
        _check_folder(target.folder, source)
    else:
        _check_repository(target.folder, target.repo_id)


def suffix(recipe: Recipe) -> str:
    """Return what the name of a result ends with."""
    if recipe.dequantize:
        return "dequantized"
    form = recipe.form
    if recipe.target_bpw is not None:
        name = f"mixed-{recipe.target_bpw:g}bpw"
    else:
        name = f"{form.bits}bit" if form.mode == "affine" else form.mode
    if form.mode == "affine" and form.group_size != 64:
        name += f"-g{form.group_size}"
    return f"{name}-rot{recipe.rotation_seed}" if recipe.rotate_weights else name


def is_snapshot(folder: Path, hub_cache: Path) -> bool:
    """Return whether a model folder is a snapshot of a repository in the cache."""
    return folder.parent.name == "snapshots" and folder.parent.parent.parent == hub_cache


def _base_name(source: ModelRef, most: int) -> str:
    """Return `org/name` of a model, the name cut to `most` of the letters a repo id may have."""
    name = source.model_id.partition("@")[0]
    org, slash, rest = name.rpartition("/")
    if not slash or source.folder.parent.name != "snapshots":
        return f"{_LOCAL}/{_cut(_plain(rest), most) or 'model'}"
    return f"{org}/{_cut(rest, most)}"


def _plain(name: str) -> str:
    """Return a folder's name as a part of a repo id."""
    return _DOTS.sub(".", _NOT_IN_NAMES.sub("-", name)).strip("-.")


def _cut(name: str, most: int) -> str:
    """Return a name cut to some characters; a long one keeps a hash, to stay one of its own."""
    if len(name) <= most:
        return name
    mark = _short(name)[:8]
    return f"{name[: most - len(mark) - 1].rstrip('-.')}-{mark}"


def _check_folder(folder: Path, source: Path) -> None:
    try:
        resolved, origin, taken = folder.resolve(), source.resolve(), os.path.lexists(folder)
    except (OSError, RuntimeError) as problem:  # a name that is too long, a link to itself
        reason = getattr(problem, "strerror", None) or "its links lead in a circle"
        shown = printable(str(folder), 200)
        raise UsageProblem(f"The output {shown} cannot be used: {reason}.") from problem
    if len(os.fsencode(folder.name)) > _LONGEST_FILE_NAME:  # else found out when all is written
        raise UsageProblem(
            f"The output {printable(str(folder), 200)} has a name of more than "
            f"{_LONGEST_FILE_NAME} bytes."
        )
    if resolved == origin or resolved.is_relative_to(origin):
        raise UsageProblem(
            f"The output {folder} lies in the folder of the model itself.",
            hint="Choose a folder outside of it.",
        )
    if origin.is_relative_to(resolved):
        raise UsageProblem(
            f"The output {folder} is a folder that holds the model itself.",
            hint="Choose a folder that does not exist yet.",
        )
    if taken:
        raise UsageProblem(f"{folder} exists already.", hint="Choose a new folder.")


def _check_repository(folder: Path, repo_id: str) -> None:
    """Refuse a repository that came from the Hub, or of which a part did."""
    if not folder.exists():
        return
    own = own_snapshots(folder)
    snapshots = folder / "snapshots"
    here = {path.name for path in snapshots.iterdir()} if snapshots.is_dir() else set()
    if not own or not here <= own:
        raise UsageProblem(
            f"The cache holds a repository {repo_id} that mlxbun did not make; it is not touched.",
            hint="Choose a folder for the result with --output.",
        )


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
