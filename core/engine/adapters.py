"""Where an adapter lies: a folder in mlx-lm's format. Imports no arrays."""

from __future__ import annotations

from pathlib import Path

from core.errors import BadModelFiles, NotFound
from core.paths import expanded
from core.registry.adapters import CONFIG, WEIGHTS, read_form
from core.registry.files import printable


def adapter_folders(cache: Path) -> tuple[Path, ...]:
    """Return the folders in which adapters are kept, beside and in our cache."""
    return (cache / "adapters", cache.with_name(f"{cache.name}-finetunes"))


def find_adapter(name: str, *, cache: Path | None = None) -> Path:
    """Return the folder of an adapter.

    Args:
        name: a folder, or the name of one that is kept.
        cache: our cache, where some are kept; None: only a folder is meant.

    Raises:
        NotFound: there is no such folder.
        BadModelFiles: it holds no adapter.
    """
    folder = _kept(name, cache) or expanded(name)
    if not _is_folder(folder):
        raise NotFound(
            f"There is no adapter {printable(name, 200)}.",
            hint="Name its folder, or one that `mlxbun adapters list` shows.",
        )
    for file in (WEIGHTS, CONFIG):
        if not (folder / file).is_file():
            raise BadModelFiles(
                f"{name} is no adapter: it has no {file}.",
                hint="An adapter is a folder as `mlxbun train` or mlx_lm.lora write it.",
            )
    return folder


def find_sound_adapter(name: str | None, *, cache: Path | None = None) -> Path | None:
    """Return the folder of an adapter that is whole: to be called before a model is looked for.

    Args:
        name: as `find_adapter`; None: none is wanted.
        cache: as `find_adapter`.

    Raises:
        NotFound: there is no such folder.
        BadModelFiles: it holds no adapter, or a broken one.
    """
    if name is None:
        return None
    folder = find_adapter(name, cache=cache)
    read_form(folder)
    return folder


def _kept(name: str, cache: Path | None) -> Path | None:
    """Return the kept adapter of that name; a folder of that name goes before it."""
    if cache is None or "/" in name or _is_folder(Path(name)):
        return None
    places = (root / name for root in adapter_folders(cache))
    return next((place for place in places if (place / WEIGHTS).is_file()), None)


def _is_folder(path: Path) -> bool:
    """Return whether there is such a folder; names that no folder can have are none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
