"""What the files of one model folder tell, read once: the part of a card that can be kept.

Opens config.json, the tokenizer's settings, chat templates and the headers of weights. Whatever it
finds, it answers: what is wrong with a folder is one of its facts.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from core.registry.abilities import (
    Abilities,
    architectures_of,
    model_type_of,
    read_abilities,
    template_in,
)
from core.registry.files import is_lfs_pointer, printable, read_bytes, read_json
from core.registry.forms import kind_of_folder, read_form
from core.registry.places import Place, is_unfinished, stray_link
from core.registry.snapshot import IncompleteError, weight_files
from core.registry.storage import Quantization, Storage, read_storage
from core.registry.weights import BrokenWeightsError, parse_header

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

READER = 2
"""Number of this way of reading; a change in what is read or written down raises it."""

_KEY = re.compile(r"[A-Za-z_]\w{,63}", re.ASCII)
_MOST_KEYS = 1000
_MOST_TEMPLATE = 4 * 2**20  # bytes


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What one model folder is."""

    problem: str | None = None
    """Why its files cannot be loaded, as a clause; None: they are whole."""
    unsupported: str | None = None
    """Why it is nothing that mlx-lm loads, whatever its type; None: no reason was found."""
    needs: str | None = None
    """What its type must be able to do to load it: `fp8`, or None."""
    note: str | None = None
    """What is worth knowing about a model that is loaded, as a clause."""
    model_type: str | None = None
    """The architecture's name: `llama`. None: not told."""
    architectures: tuple[str, ...] = ()
    """The classes that the config names."""
    keys: tuple[str, ...] = ()
    """What the config tells about, by name; null counts as told."""
    storage: Storage = field(default_factory=Storage)
    """Its numbers and their form."""
    abilities: Abilities = field(default_factory=Abilities)
    """What it can do."""

    def to_plain(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Facts:
        """Return what `to_plain` gave.

        Raises:
            TypeError, KeyError, AttributeError: it is something else.
        """
        storage = dict(plain["storage"])
        packed = storage.pop("quantization")
        if packed is not None:
            packed = Quantization(**{**packed, "widths": tuple(packed["widths"])})
        own = {
            "architectures": tuple(plain["architectures"]),
            "keys": tuple(plain["keys"]),
            "storage": Storage(**storage, quantization=packed),
            "abilities": Abilities(**plain["abilities"]),
        }
        return cls(**{**plain, **own})


def read_place(place: Place) -> Facts:
    """Return what the model at a place is. Does not raise, whatever the folder holds."""
    if (problem := _obstacle(place)) is not None:
        return Facts(problem=problem)
    return read_facts(place.folder)


def read_facts(folder: Path) -> Facts:
    """Return what a model folder is. Does not raise, whatever the folder holds."""
    try:
        names = [path.name for path in folder.iterdir()]
        config, bad_config = _config(folder)
        headers, bad_weights = _headers(folder)
        template = _template(folder, names)
    except OSError as error:
        return Facts(problem=f"it cannot be read ({error.strerror})")
    classes = architectures_of(config)
    form = read_form(config, headers or ())
    return Facts(
        problem=bad_weights or bad_config,
        unsupported=kind_of_folder(names, classes) or form.refusal,
        needs=form.needs,
        note=form.note,
        model_type=model_type_of(config),
        architectures=classes,
        keys=tuple(sorted(filter(_KEY.fullmatch, config))[:_MOST_KEYS]),
        storage=read_storage(config, headers),
        abilities=read_abilities(config, template),
    )


def shows_chat_template(folder: Path) -> bool:
    """Return whether a model folder has a chat template where it is usually kept."""
    try:
        return _template(folder, [path.name for path in folder.iterdir()]) is not None
    except OSError:
        return False


def find_damage(place: Place) -> str | None:
    """Return why the files of a place cannot be loaded, as a clause, or None when they can.

    Looks into the headers of weights, too, unlike `core.registry.snapshot.find_problem`.
    """
    problem = _obstacle(place) or check_folder(place.folder)
    return as_told(problem, place) if problem else None


def as_told(problem: str, place: Place) -> str:
    """Return a problem with what is known of a download that may be its cause."""
    return f"{problem}; its download is not finished" if is_unfinished(place) else problem


def check_folder(folder: Path) -> str | None:
    """Return why the files of a folder cannot be loaded, as a clause, or None when they can."""
    try:
        return _headers(folder)[1] or _config(folder)[1]
    except OSError as error:
        return f"it cannot be read ({error.strerror})"


def _obstacle(place: Place) -> str | None:
    if place.problem is not None:
        return place.problem
    try:
        stray = stray_link(place)
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return f"{stray} leads out of its repository" if stray else None


def _config(folder: Path) -> tuple[dict[str, Any], str | None]:
    """Return config.json, or an empty one and what is wrong with it."""
    try:
        config = read_json(folder / "config.json")
    except FileNotFoundError:
        gone = (folder / "config.json").is_symlink()
        return {}, f"config.json {'points to a file that is gone' if gone else 'is missing'}"
    except OSError as problem:
        return {}, f"config.json cannot be read ({problem.strerror})"
    if config is not None:
        return config, None
    pointer = is_lfs_pointer(folder / "config.json")
    return {}, f"config.json is {'a Git LFS pointer' if pointer else 'not a JSON object'}"


def _headers(folder: Path) -> tuple[dict[str, Any] | None, str | None]:
    """Return all tensors by name, or None and what is wrong with the weights.

    Raises:
        OSError: the folder cannot be read.
    """
    tensors: dict[str, Any] = {}
    try:
        for name in weight_files(folder):
            tensors |= parse_header(folder / name)
    except IncompleteError as problem:
        return None, str(problem)
    except BrokenWeightsError as problem:
        return None, f"{printable(name)} is broken: {problem}"
    return tensors, None


def _template(folder: Path, names: list[str]) -> str | None:
    """Return the chat template, looked for where transformers looks, in its order."""
    if "chat_template.jinja" in names:
        try:
            content = read_bytes(folder / "chat_template.jinja", limit=_MOST_TEMPLATE)
            return content.decode("utf-8", "replace")
        except OSError:
            return None
    for name in ("chat_template.json", "tokenizer_config.json"):
        try:
            template = template_in(read_json(folder / name) or {})
        except OSError:
            continue
        if template is not None:
            return template
    return None
