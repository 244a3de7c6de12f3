"""The adapters on this disk, and what their files tell. Imports no arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.engine.adapters import adapter_folders, find_adapter
from core.errors import BadModelFiles, MlxbunError
from core.provenance import read_provenance
from core.registry.adapters import CONFIG, WEIGHTS, fit_to_own_base, read_form
from core.registry.files import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from core.paths import Paths
    from core.provenance import Provenance
    from core.registry.adapters import Fit


@dataclass(frozen=True, kw_only=True)
class AdapterCard:
    """One adapter."""

    name: str
    """Its folder's name."""
    folder: Path
    """Where it lies."""
    base: str | None
    """The model that it was trained on, or None if it does not say."""
    kind: str
    """`lora`, `dora` or `full`."""
    method: str | None
    """What it was trained by; None: not known."""
    rank: int | None
    """Of its matrices; None: not known."""
    scale: float | None
    """What its part is multiplied by; None: not known."""
    layers: int
    """Layers that it changes."""
    parameters: int
    """Numbers in it."""
    size_bytes: int
    """Of its weights."""
    modified: float
    """When it was written, in seconds since 1970."""
    loss: float | None
    """Of the rows that it was measured on, in nats; None: not known."""
    base_loss: float | None
    """Of the same rows without it."""


def list_adapters(
    paths: Paths, *, on_broken: Callable[[str], None] = lambda _told: None
) -> list[AdapterCard]:
    """Return the adapters that are kept, the latest first.

    Args:
        paths: our folders.
        on_broken: hears in a sentence of each that is left out, as its files are broken.
    """
    found = []
    for root in adapter_folders(paths.cache):
        for folder in _folders(root, on_broken):
            try:
                if (folder / WEIGHTS).is_file() and (folder / CONFIG).is_file():
                    found.append(read_card(folder))
            except MlxbunError as problem:
                on_broken(problem.message)
            except OSError as problem:
                on_broken(f"{folder} cannot be read: {problem.strerror}.")
    return sorted(found, key=lambda card: -card.modified)


def _folders(root: Path, on_broken: Callable[[str], None]) -> list[Path]:
    try:
        return sorted(root.iterdir()) if root.is_dir() else []
    except OSError as problem:
        on_broken(f"{root} cannot be read: {problem.strerror}.")
        return []


def find_card(name: str, paths: Paths) -> AdapterCard:
    """Return the adapter in a folder, or of that name where adapters are kept.

    Raises:
        NotFound: there is none.
        BadModelFiles: its files are broken.
    """
    return read_card(find_adapter(name, cache=paths.cache))


def read_card(folder: Path) -> AdapterCard:
    """Return what an adapter's files tell.

    Raises:
        BadModelFiles: they are broken.
    """
    form = read_form(folder)
    try:
        config = read_json(folder / CONFIG) or {}
        status = (folder / WEIGHTS).stat()
    except OSError as problem:
        raise BadModelFiles(f"{folder} cannot be read: {problem.strerror}.") from problem
    made = config.get("mlxbun")
    loss, base_loss = _losses(provenance_of(folder))
    return AdapterCard(
        name=folder.name,
        folder=folder,
        base=form.base,
        kind=form.kind,
        method=_text(made.get("method")) if isinstance(made, dict) else None,
        rank=form.rank,
        scale=form.scale,
        layers=len(form.paths),
        parameters=sum(map(math.prod, form.tensors.values())),
        size_bytes=form.size_bytes,
        modified=status.st_mtime,
        loss=loss,
        base_loss=base_loss,
    )


def fit_to_base(card: AdapterCard, paths: Paths, model_folders: Sequence[str]) -> Fit | None:
    """Compare an adapter with the model that it names as its base; None: that is not on this disk.

    Args:
        card: the adapter's.
        paths: our folders and the Hugging Face cache.
        model_folders: where models are looked for beside the cache.
    """
    return fit_to_own_base(card.folder, hub_cache=paths.hub_cache, model_folders=model_folders)


def provenance_of(folder: Path) -> Provenance | None:
    """Return what an adapter tells of how it was made; None: nothing that can be read.

    These are words beside the adapter, which works without them.
    """
    try:
        return read_provenance(folder)
    except MlxbunError:
        return None


def _losses(provenance: Provenance | None) -> tuple[float | None, float | None]:
    figures = provenance.figures if provenance else ()
    for figure in figures:
        if figure.name == "loss":
            return figure.value, figure.base_value
    return None, None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
