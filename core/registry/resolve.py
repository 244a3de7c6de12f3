"""From what a user calls a model to the folder that holds it.

A name is a repo id in the Hugging Face cache, a local folder, or a part of a repo id. Looks only
at disk; what is not there is not fetched.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import Ambiguous, BadModelFiles, NotFound, StoreCorrupt, UsageProblem
from core.registry.cache import CachedModel, list_models
from core.registry.snapshot import find_problem
from core.registry.starter import STARTER_IDS

if TYPE_CHECKING:
    from collections.abc import Iterable

_FETCH_HINT = "Run `mlxbun download starter` for a first model, or `mlxbun ls` for those here."


@dataclass(frozen=True, kw_only=True)
class ModelRef:
    """A model on this disk whose files are all there."""

    model_id: str
    """Repo id, or the folder's name."""
    folder: Path
    """Where config.json lies."""


def resolve_model(name: str, *, hub_cache: Path) -> ModelRef:
    """Return the model that a name stands for.

    An exact repo id wins, then a folder, then a part of a repo id in any case.

    Raises:
        Ambiguous: the name is part of several repo ids.
        NotFound: it is part of none; the hint holds near misses.
        BadModelFiles: what it names is incomplete, or no model folder.
        StoreCorrupt: the cache folder cannot be read.
    """
    if not name.strip():
        raise UsageProblem("The name of the model is empty.", hint=_FETCH_HINT)
    models = list_models(hub_cache)
    if exact := [model for model in models if model.repo_id == name]:
        return _checked(exact[0])
    folder = _folder(name)
    if _is_path(name) or (folder / "config.json").exists():
        return _local(name, folder)
    matches = [model for model in models if name.lower() in model.repo_id.lower()]
    usable = [model for model in matches if model.problem is None]
    if len(usable) > 1:
        raise _ambiguous(name, usable)
    if matches:
        return _checked((usable or matches)[0])
    if folder.exists():
        return _local(name, folder)
    raise _not_found(name, models)


def is_model_name(name: str, *, hub_cache: Path) -> bool:
    """Return whether a word is the whole name of a model: `starter`, a repo id or a folder."""
    try:
        if name == "starter" or (Path(name).expanduser() / "config.json").is_file():
            return True
        return any(model.repo_id == name for model in list_models(hub_cache))
    except (OSError, ValueError, RuntimeError, StoreCorrupt):  # a prompt can be any text
        return False


def default_model(*, hub_cache: Path) -> ModelRef | None:
    """Return the model to use when none is named; None when the cache has no usable one.

    Raises:
        UsageProblem: there are several, and the starter is not among them.
        StoreCorrupt: the cache folder cannot be read.
    """
    usable = [model for model in list_models(hub_cache) if model.problem is None]
    if len(usable) > 1:
        usable = _starters(usable) or usable
        if usable[0].repo_id not in STARTER_IDS:
            names = ", ".join(model.repo_id for model in usable)
            raise UsageProblem(
                f"There are several models here, and none was named: {names}.",
                hint="Name one of them, or set it for good: `mlxbun config set model NAME`.",
            )
    return _ref(usable[0]) if usable else None


def find_starter(*, hub_cache: Path) -> ModelRef | None:
    """Return the starter model if the cache holds one whole, else None.

    Raises:
        StoreCorrupt: the cache folder cannot be read.
    """
    starters = _starters(model for model in list_models(hub_cache) if model.problem is None)
    return _ref(starters[0]) if starters else None


def _starters(models: Iterable[CachedModel]) -> list[CachedModel]:
    found = [model for model in models if model.repo_id in STARTER_IDS]
    return sorted(found, key=lambda model: STARTER_IDS.index(model.repo_id))


def _folder(name: str) -> Path:
    """Return the folder that a name would be; names that no folder can have are not found."""
    try:
        folder = Path(name).expanduser()
        folder.exists()
    except (OSError, ValueError, RuntimeError) as problem:
        shown = name if len(name) < 80 else name[:77] + "..."
        raise NotFound(f"No model is called {shown!r}.", hint=_FETCH_HINT) from problem
    return folder


def _is_path(name: str) -> bool:
    return name.startswith(("/", "./", "../", "~")) or name in (".", "..")


def _local(name: str, folder: Path) -> ModelRef:
    if not folder.exists():
        raise NotFound(f"There is no folder {name}.", hint=_FETCH_HINT)
    if not folder.is_dir():
        raise BadModelFiles(
            f"{name} is a file, and a model is a folder.",
            hint="Name the folder that holds config.json and the safetensors weights.",
        )
    if (problem := find_problem(folder)) is not None:
        raise BadModelFiles(
            f"{name} cannot be used as a model: {problem}.",
            hint="Name a folder that holds config.json and the safetensors weights.",
        )
    folder = folder.resolve()
    return ModelRef(model_id=folder.name, folder=folder)


def _checked(model: CachedModel) -> ModelRef:
    if model.problem is not None:
        raise BadModelFiles(
            f"{model.repo_id} in the cache cannot be used: {model.problem}.",
            hint="Download it again, for example with `hf download`, or choose another model.",
        )
    return _ref(model)


def _ref(model: CachedModel) -> ModelRef:
    return ModelRef(model_id=model.repo_id, folder=model.folder)


def _ambiguous(name: str, models: list[CachedModel]) -> Ambiguous:
    candidates = tuple(sorted(model.repo_id for model in models))
    return Ambiguous(
        f"{name!r} fits several models: {', '.join(candidates)}.",
        candidates=candidates,
        hint="Write more of the one you mean.",
    )


def _not_found(name: str, models: list[CachedModel]) -> NotFound:
    near = _near_misses(name, [model.repo_id for model in models if model.problem is None])
    hint = f"Did you mean {' or '.join(near)}?" if near else _FETCH_HINT
    return NotFound(f"There is no model {name!r} on this machine.", hint=hint)


def _near_misses(name: str, repo_ids: list[str]) -> list[str]:
    """Return up to three repo ids that are close to a name, as a whole or in their last part."""
    keys: dict[str, str] = {}
    for repo_id in repo_ids:
        keys[repo_id.lower()] = repo_id
        keys.setdefault(repo_id.lower().rpartition("/")[2], repo_id)
    close = difflib.get_close_matches(name.lower(), keys, n=3, cutoff=0.5)
    return list(dict.fromkeys(keys[key] for key in close))
