"""From what a user calls a model to the folder that holds it.

A name is a repo id in the Hugging Face cache, the name of a model in a folder of models, a local
folder, or a part of a name. Behind a repo id, `@` and a branch, a tag or a commit mean another
snapshot than that of `main`. Looks only at disk; what is not there is not fetched.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import Ambiguous, BadModelFiles, NotFound, StoreCorrupt, UsageProblem
from core.registry.facts import check_folder, find_damage
from core.registry.files import printable
from core.registry.names import plain_name
from core.registry.places import Place, find_places, has_repo_id, snapshots
from core.registry.remedy import import_hint, remedy
from core.registry.starter import STARTER_IDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FETCH_HINT = "Run `mlxbun download starter` for a first model, or `mlxbun ls` for those here."
_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_COMMIT_START = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True, kw_only=True)
class ModelRef:
    """A model on this disk whose files are all there."""

    model_id: str
    """Repo id, the folder's name, or `org/name@revision`."""
    folder: Path
    """Where config.json lies."""


def resolve_model(name: str, *, hub_cache: Path, model_folders: Sequence[str] = ()) -> ModelRef:
    """Return the model that a name stands for.

    An exact name wins, then a folder, then a part of a name in any case. `NAME@REVISION` is a
    snapshot in the cache: a branch, a tag, a commit, or the first seven or more digits of one.

    Args:
        name: what the user calls it.
        hub_cache: the Hugging Face cache.
        model_folders: the setting of that name.

    Raises:
        Ambiguous: the name is part of several names.
        NotFound: it is part of none; the hint holds near misses.
        BadModelFiles: what it names is incomplete, or no model folder.
        StoreCorrupt: the cache folder cannot be read.
        UsageProblem: it is empty, or the address of something other than a model.
    """
    if not name.strip():
        raise UsageProblem("The name of the model is empty.", hint=_FETCH_HINT)
    name = plain_name(name)
    places = find_places(hub_cache, model_folders)
    if exact := [place for place in places if place.name == name]:
        return _checked(exact[0])
    folder = _folder(name)
    if is_path(name) or (folder / "config.json").exists():
        return _local(name, folder)
    if "@" in name:
        return _revision(name, places)
    if (found := _by_part(name, places)) is not None:
        return _checked(found)
    if folder.exists():
        return _local(name, folder)
    raise _not_found(name, places)


def is_model_name(name: str, *, hub_cache: Path, model_folders: Sequence[str] = ()) -> bool:
    """Return whether a word is the whole name of a model: `starter`, a name or a folder.

    A name may have a revision behind it.
    """
    try:
        name = plain_name(name)
        if name == "starter" or (Path(name).expanduser() / "config.json").is_file():
            return True
        base = name.partition("@")[0]
        return any(place.name in (name, base) for place in find_places(hub_cache, model_folders))
    # A prompt can be any text.
    except (OSError, ValueError, RuntimeError, StoreCorrupt, UsageProblem):
        return False


def default_model(
    *, hub_cache: Path, model_folders: Sequence[str] = (), index: Path | None = None
) -> ModelRef | None:
    """Return the model to use when none is named; None when there is no supported one.

    Args:
        hub_cache: the Hugging Face cache.
        model_folders: the setting of that name.
        index: `Paths.library_file`, to look only at what is new.

    Raises:
        UsageProblem: there are several, and the starter is not among them.
        StoreCorrupt: the cache folder cannot be read.
    """
    from core.registry.library import read_library  # brings SQLite along

    cards = read_library(hub_cache=hub_cache, model_folders=model_folders, index=index)
    usable = {card.name: card.folder for card in cards if card.supported}
    starters = [name for name in STARTER_IDS if name in usable]
    if len(usable) > 1 and not starters:
        raise UsageProblem(
            f"There are several models here, and none was named: {_listed(usable)}.",
            hint="Name one of them, or set it for good: `mlxbun config set model NAME`.",
        )
    chosen = next(iter([*starters, *usable]), None)
    return ModelRef(model_id=chosen, folder=usable[chosen]) if chosen else None


def find_starter(*, hub_cache: Path) -> ModelRef | None:
    """Return the starter model if the cache holds one whole, else None.

    Raises:
        StoreCorrupt: the cache folder cannot be read.
    """
    here = {place.name: place for place in find_places(hub_cache)}
    starters = (here[name] for name in STARTER_IDS if name in here)
    return next((_ref(place) for place in starters if find_damage(place) is None), None)


def _by_part(name: str, places: Sequence[Place]) -> Place | None:
    """Return the place that has a part of its name so, a whole one before one that is not.

    Raises:
        Ambiguous: several whole ones have.
    """
    matches = [place for place in places if name.lower() in place.name.lower()]
    usable = [place for place in matches if find_damage(place) is None]
    if len(usable) > 1:
        raise _ambiguous(name, [place.name for place in usable])
    return next(iter([*usable, *matches]), None)


def _revision(name: str, places: Sequence[Place]) -> ModelRef:
    """Return the snapshot that `NAME@REVISION` stands for.

    Raises:
        NotFound: there is no such model or snapshot.
        Ambiguous: several models or snapshots are meant.
        BadModelFiles: it is incomplete.
    """
    base, _, revision = name.partition("@")
    cached = [place for place in places if place.repository is not None]
    exact = next((place for place in cached if place.name == base), None)
    found = exact or (_by_part(base, cached) if base.strip() else None)
    if found is None or found.repository is None:
        raise _not_found(base, cached)
    here = snapshots(found.repository)
    fitting = [place for place in here if _is_called(place, revision)]
    if not fitting:
        raise NotFound(
            f"{printable(found.name)} has no revision {_shown(revision)} on this machine.",
            hint=f"There are {', '.join(map(_revision_name, here))}.",
        )
    if len(fitting) > 1:
        raise _ambiguous(name, [f"{place.name}@{place.commit}" for place in fitting])
    return _checked(fitting[0], revision=None if fitting[0] == found else revision)


def _is_called(place: Place, revision: str) -> bool:
    if place.commit is None:
        return False
    by_start = bool(_COMMIT_START.fullmatch(revision)) and place.commit.startswith(revision)
    return revision in place.refs or revision == place.commit or by_start


def _revision_name(place: Place) -> str:
    return next(iter(place.refs), None) or printable(place.commit or "none", 12)


def _folder(name: str) -> Path:
    """Return the folder that a name would be; names that no folder can have are not found."""
    try:
        folder = Path(name).expanduser()
        folder.exists()
    except (OSError, ValueError, RuntimeError) as problem:
        raise NotFound(f"No model is called {_shown(name)}.", hint=_FETCH_HINT) from problem
    return folder


def is_path(name: str) -> bool:
    """Return whether a name can only be a path."""
    return name.startswith(("/", "./", "../", "~")) or name in (".", "..")


def _local(name: str, folder: Path) -> ModelRef:
    if not folder.exists():
        raise NotFound(f"There is no folder {name}.", hint=_FETCH_HINT)
    if not folder.is_dir():
        if folder.suffix.lower() == ".gguf":
            raise BadModelFiles(
                f"{name} is a GGUF file; mlxbun loads safetensors.", hint=import_hint(folder)
            )
        raise BadModelFiles(
            f"{name} is a file, and a model is a folder.",
            hint="Name the folder that holds config.json and the safetensors weights.",
        )
    if (problem := check_folder(folder)) is not None:
        raise BadModelFiles(
            f"{name} cannot be used as a model: {problem}.",
            hint=remedy(folder)
            or "Download the model again, or name a folder with config.json and safetensors "
            "weights.",
        )
    folder = folder.resolve()
    return ModelRef(model_id=folder.name, folder=folder)


def _checked(place: Place, *, revision: str | None = None) -> ModelRef:
    if (problem := find_damage(place)) is not None:
        raise BadModelFiles(
            f"{printable(place.name)} cannot be used: {problem}.",
            hint=_mending(place),
        )
    return _ref(place, revision)


def _mending(place: Place) -> str:
    if found := remedy(place.folder):
        return found
    if place.repository is None:
        return f"Mend the files in {place.folder}, or choose another model."
    if not has_repo_id(place.repository):  # `mlxbun download` would refuse the name
        return f"Choose another model: no download mends {place.repository}."
    return f"`mlxbun download {printable(place.name)}` may mend it; or choose another model."


def _ref(place: Place, revision: str | None = None) -> ModelRef:
    model_id = place.name if revision is None else f"{place.name}@{revision}"
    return ModelRef(model_id=model_id, folder=place.folder)


def _ambiguous(name: str, names: Sequence[str]) -> Ambiguous:
    return Ambiguous(
        f"{_shown(name)} fits several models: {_listed(sorted(names))}.",
        candidates=tuple(sorted(names)),
        hint="Write more of the one you mean.",
    )


def _not_found(name: str, places: Sequence[Place]) -> NotFound:
    near = _near_misses(name, places)
    if near:
        hint = f"Did you mean {' or '.join(map(printable, near))}?"
    elif _REPO_ID.fullmatch(name):
        hint = f"Download it first: `mlxbun download {name}`; `mlxbun ls` shows the models here."
    else:
        hint = _FETCH_HINT
    return NotFound(f"There is no model {_shown(name)} on this machine.", hint=hint)


def _near_misses(name: str, places: Sequence[Place]) -> list[str]:
    """Return up to three whole models whose name is close, as a whole or in its last part."""
    keys: dict[str, Place] = {}
    for place in places:
        keys[place.name.lower()] = place
        keys.setdefault(place.name.lower().rpartition("/")[2], place)
    close = difflib.get_close_matches(name.lower(), keys, n=6, cutoff=0.5)
    near = {keys[key].name: keys[key] for key in close}
    return [name for name, place in near.items() if find_damage(place) is None][:3]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(printable, names))


def _shown(name: str) -> str:
    return repr(printable(name))
