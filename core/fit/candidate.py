"""A model that is asked about: on this disk, or on the Hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import BadModelFiles, NotFound
from core.figures import model_revision
from core.fit.families import read_shape
from core.fit.remote import is_repo_id, look_at
from core.fit.weights import local_tensors, weigh
from core.hf_token import find_token
from core.registry.architectures import find_mlx_lm, read_architectures
from core.registry.files import read_json
from core.registry.names import plain_name
from core.registry.resolve import find_starter, resolve_model
from core.registry.support import why_not_loaded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from core.fit.shapes import ModelShape
    from core.fit.weights import Tensor, Weights
    from core.paths import Paths
    from core.registry.resolve import ModelRef

_APPROXIMATE = (
    "The architecture {kind!r} is not in our table: every layer counts as full attention, "
    "and KV is approximate."
)


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """What the files of a model hold, before it is added up."""

    model_id: str
    """Repo id, or the folder's name."""
    revision: str
    """The commit, or `files-` and a fingerprint; as the benchmark store has it."""
    folder: Path | None
    """Where it lies; None: it is not here."""
    config: Mapping[str, Any]
    """Its config.json."""
    tensors: Sequence[Tensor]
    """The headers of its weights."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model and what its files tell."""

    model_id: str
    """Repo id, or the folder's name."""
    revision: str
    """The commit, or `files-` and a fingerprint; as the benchmark store has it."""
    folder: Path | None
    """Where it lies; None: it is not here."""
    shape: ModelShape
    """What it is made of."""
    weights: Weights
    """What its headers add up to."""
    unloadable: str | None = None
    """Why mlx-lm cannot load it, as a clause; None: it can, or that is not known."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not exact, one sentence each."""
        known = () if self.shape.known else (_APPROXIMATE.format(kind=self.shape.model_type),)
        runs = (f"It cannot be run: {self.unloadable}.",) if self.unloadable else ()
        return (*runs, *known, *self.weights.notes)


def find_candidate(
    name: str,
    *,
    paths: Paths,
    environ: Mapping[str, str],
    model_folders: Sequence[str] = (),
    remote: bool = False,
) -> Candidate:
    """Return the model that a name stands for, as `find_files` finds it."""
    files = find_files(
        name, paths=paths, environ=environ, model_folders=model_folders, remote=remote
    )
    return candidate_of(files)


def find_files(
    name: str,
    *,
    paths: Paths,
    environ: Mapping[str, str],
    model_folders: Sequence[str] = (),
    remote: bool = False,
) -> ModelFiles:
    """Return the files of the model that a name stands for: here, else on the Hub.

    Args:
        name: a name, a folder, `starter`, or a repo id on the Hub; `@revision` may follow.
        paths: our folders and the Hugging Face cache.
        environ: the environment, for the Hub's address, the token and the offline switches.
        model_folders: the setting of that name.
        remote: ask the Hub even when the model is here.

    Raises:
        MlxbunError: NotFound, Ambiguous, UsageProblem, BadModelFiles, DownloadFailed, StoreCorrupt.
    """
    name = plain_name(name)
    if remote:
        return _on_the_hub(name, paths, environ)
    if name == "starter":
        found = find_starter(hub_cache=paths.hub_cache)
        if found is None:
            raise NotFound(
                "The starter model is not on this machine yet.",
                hint="`mlxbun download starter` fetches it.",
            )
        return read_files(found)
    try:
        here = resolve_model(name, hub_cache=paths.hub_cache, model_folders=model_folders)
    except NotFound:
        if not is_repo_id(name):
            raise
        return _on_the_hub(name, paths, environ)
    return read_files(here)


def read_candidate(model: ModelRef) -> Candidate:
    """Return a model on this disk, as `read_files` reads it."""
    return candidate_of(read_files(model))


def read_files(model: ModelRef) -> ModelFiles:
    """Return what the files of a model on this disk hold.

    Raises:
        BadModelFiles: its files are missing, broken or absurd.
    """
    try:
        config = read_json(model.folder / "config.json")
    except OSError as problem:
        raise BadModelFiles(
            f"config.json of {model.model_id} cannot be read: {problem.strerror or problem}."
        ) from problem
    if config is None:
        raise BadModelFiles(f"config.json of {model.model_id} is no JSON object.")
    return ModelFiles(
        model_id=model.model_id,
        revision=model_revision(model.folder),
        folder=model.folder,
        config=config,
        tensors=local_tensors(model.folder),
    )


def _on_the_hub(name: str, paths: Paths, environ: Mapping[str, str]) -> ModelFiles:
    seen = look_at(name, environ=environ, token=find_token(paths, environ))
    return ModelFiles(
        model_id=name,
        revision=seen.commit,
        folder=None,
        config=seen.config,
        tensors=seen.tensors,
    )


def candidate_of(files: ModelFiles) -> Candidate:
    """Return a model by what its files hold.

    Raises:
        BadModelFiles: config.json contradicts them.
    """
    weights = weigh(files.tensors, files.config)
    shape = read_shape(files.config, vocabulary=weights.vocabulary)
    return Candidate(
        model_id=files.model_id,
        revision=files.revision,
        folder=files.folder,
        shape=shape,
        weights=weights,
        unloadable=None if shape.known else _why_not_loaded(files.config),
    )


def _why_not_loaded(config: Mapping[str, Any]) -> str | None:
    """Return why mlx-lm cannot load a model of a type that is not in our table; None: it can."""
    kind, classes = config.get("model_type"), config.get("architectures")
    known = read_architectures(find_mlx_lm())
    if not isinstance(kind, str) or not known.types:
        return None
    names = [name for name in classes if isinstance(name, str)] if isinstance(classes, list) else []
    return None if known.module_for(kind, names) else why_not_loaded(kind, known)
