"""The library: every model on this disk with what it is, from the index where nothing has changed.

Each folder is looked at from outside every time, which takes microseconds a file; files are opened
only when the folder's fingerprint is not the one in the index.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import StoreCorrupt
from core.registry.architectures import (
    Architectures,
    find_mlx_lm,
    read_architectures,
    stamp_of,
)
from core.registry.facts import READER, Facts, as_told, read_place
from core.registry.index import Aside, Entry, load_index, save_index, to_json
from core.registry.places import Place, find_places
from core.registry.storage import Quantization
from core.registry.support import judge
from core.registry.survey import Survey, survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from core.paths import Paths
    from core.settings import Settings

_ARCHITECTURES = "mlx-lm"


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """One model on this disk. None: its files do not tell."""

    name: str
    """What to call it: `org/name`, a folder's name, or the folder, where the name is taken."""
    folder: Path
    """Where its files lie."""
    in_cache: bool
    """Whether it belongs to the Hugging Face cache; else it is a plain folder."""
    commit: str | None
    """Its snapshot's commit; None: it is no snapshot."""
    refs: tuple[str, ...]
    """Branches and tags that stand for the snapshot."""
    model_type: str | None
    """The architecture's name: `llama`."""
    architectures: tuple[str, ...]
    """The classes that its config names."""
    parameters: int | None
    """How many numbers it has, counted from the headers of its weights."""
    quantization: Quantization | None
    """How they are packed; None: they are not."""
    dtype: str | None
    """Type of the numbers that are not packed: `bf16`, `fp16`, `fp32`."""
    weights_bytes: int | None
    """Bytes of all tensors."""
    size_bytes: int
    """Bytes of all its files on disk, each once."""
    modified: float | None
    """When its newest file was written, in seconds since 1970."""
    context: int | None
    """Tokens that it was made for."""
    vision: bool
    """Whether it has a part that sees."""
    audio: bool
    """Whether it has a part that hears."""
    chat: bool
    """Whether it has a chat template."""
    tools: bool
    """Whether its chat template knows tools."""
    thinking: bool
    """Whether its chat template knows of reasoning."""
    problem: str | None
    """Why its files cannot be loaded, as a clause; None: they are whole."""
    supported: bool
    """Whether its files are whole, and mlxbun runs its kind."""
    reason: str | None
    """Why it is not supported, as a clause."""
    note: str | None
    """What is worth knowing about one that is supported, as a clause."""
    blobs: Mapping[tuple[int, int], int] = field(repr=False, compare=False)
    """Bytes of each of its files by device and inode: what is shared with others has the same."""


def library(paths: Paths, settings: Settings, *, all_revisions: bool = False) -> list[ModelCard]:
    """Return every model on this disk, by name.

    Args:
        paths: the Hugging Face cache, and where the index is.
        settings: `model_folders` counts.
        all_revisions: every snapshot of a repository, not only the one that its name stands for.

    Raises:
        StoreCorrupt: the cache folder cannot be read. What is wrong with one model is on its card.
    """
    return read_library(
        hub_cache=paths.hub_cache,
        model_folders=settings.model_folders,
        index=paths.library_file,
        all_revisions=all_revisions,
    )


def read_library(
    *,
    hub_cache: Path,
    model_folders: Sequence[str] = (),
    index: Path | None = None,
    all_revisions: bool = False,
) -> list[ModelCard]:
    """Return every model on this disk, as `library`; `index` None: without one."""
    places = find_places(hub_cache, model_folders, all_revisions=all_revisions)
    with _Reader(index) as reader:
        cards = [reader.card(place) for place in places]
        reader.forget_all_but(places)
    # Stable: the snapshots of a repository stay in their order.
    return sorted(cards, key=lambda card: card.name.casefold())


def model_names(paths: Paths, prefix: str = "", *, model_folders: Sequence[str] = ()) -> list[str]:
    """Return the models that start with a prefix, for shell completion: those that mlxbun runs.

    What the index has found whole and supported is believed as long as its folder is there, without
    a look at its files; everything else is looked at. Where no name starts so, names whose last
    part does are returned, in any case.
    """
    try:
        places = find_places(paths.hub_cache, model_folders)
    except StoreCorrupt:
        return []
    if not (wanted := [place for place in places if place.name.startswith(prefix)]):
        start = prefix.lower()
        wanted = [
            place for place in places if place.name.lower().rpartition("/")[2].startswith(start)
        ]
    with _Reader(paths.library_file) as reader:
        return sorted(place.name for place in wanted if reader.runs(place))


def usable_models(paths: Paths, settings: Settings) -> dict[str, bool]:
    """Return the names of the models that mlxbun runs, each with whether it has a vision part.

    A cache that cannot be read holds none.
    """
    try:
        cards = library(paths, settings)
    except StoreCorrupt:
        return {}
    return {card.name: card.vision for card in cards if card.supported}


def disk_bytes(cards: Iterable[ModelCard]) -> int:
    """Return the bytes that models take together; files that several share count once."""
    blobs: dict[tuple[int, int], int] = {}
    for card in cards:
        blobs |= card.blobs
    return sum(blobs.values())


class _Reader:
    """Reads places with the help of an index, and keeps there what it read on leaving the block."""

    def __init__(self, index: Path | None) -> None:
        self._index = index
        kept = load_index(index) if index else None
        self._entries = dict(kept.folders) if kept else {}
        self._new: dict[str, Entry] = {}
        self._gone: list[str] = []
        self._asides: dict[str, Aside] = {}
        self._known = self._architectures(kept.asides if kept else {})

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._index and (self._new or self._gone or self._asides):
            save_index(self._index, folders=self._new, gone=self._gone, asides=self._asides)

    def card(self, place: Place) -> ModelCard:
        """Return the card of a place."""
        seen = None
        if place.problem is not None:
            return self._make(place, Facts(problem=place.problem), seen)
        try:
            seen = survey(place.folder)
        except OSError as problem:
            facts = Facts(problem=f"it cannot be read ({problem.strerror})")
            return self._make(place, facts, seen)
        return self._make(place, self._facts(place, seen), seen)

    def runs(self, place: Place) -> bool:
        """Return whether mlxbun runs a model, as far as the index knows, if it knows."""
        if place.problem is not None:
            return False
        entry = self._entries.get(str(place.folder))
        facts = _facts_in(entry) if entry and entry.fingerprint.startswith(_MARK) else None
        if facts is not None and judge(facts, self._known).supported:
            return True
        return self.card(place).supported

    def forget_all_but(self, places: Iterable[Place]) -> None:
        """Take folders that are not there any more out of the index."""
        listed = {str(place.folder) for place in places}
        self._gone = [key for key in self._entries if key not in listed and _is_gone(key)]

    def _facts(self, place: Place, seen: Survey) -> Facts:
        key, mark = str(place.folder), _MARK + seen.fingerprint
        entry = self._entries.get(key)
        if entry and entry.fingerprint == mark and (kept := _facts_in(entry)) is not None:
            return kept
        facts = read_place(place)
        if seen.settled():
            self._new[key] = Entry(fingerprint=mark, facts=to_json(facts.to_plain()))
        return facts

    def _make(self, place: Place, facts: Facts, seen: Survey | None) -> ModelCard:
        if facts.problem is not None:
            facts = replace(facts, problem=as_told(facts.problem, place))
        verdict = judge(facts, self._known)
        storage, abilities = facts.storage, facts.abilities
        return ModelCard(
            name=place.name,
            folder=place.folder,
            in_cache=place.repository is not None,
            commit=place.commit,
            refs=place.refs,
            model_type=facts.model_type,
            architectures=facts.architectures,
            parameters=storage.parameters,
            quantization=storage.quantization,
            dtype=storage.dtype,
            weights_bytes=storage.weights_bytes,
            size_bytes=seen.size_bytes if seen else 0,
            modified=seen.modified if seen else None,
            context=abilities.context,
            vision=abilities.vision,
            audio=abilities.audio,
            chat=abilities.chat,
            tools=abilities.tools,
            thinking=abilities.thinking,
            problem=facts.problem,
            supported=verdict.supported,
            reason=verdict.reason,
            note=verdict.note,
            blobs=seen.blobs if seen else {},
        )

    def _architectures(self, asides: Mapping[str, Aside]) -> Architectures:
        package = find_mlx_lm()
        stamp = stamp_of(package)
        aside = asides.get(_ARCHITECTURES)
        if aside and aside.stamp == stamp:
            try:
                return Architectures.from_plain(json.loads(aside.content))
            except (ValueError, TypeError, KeyError, AttributeError):
                pass
        known = read_architectures(package)
        self._asides[_ARCHITECTURES] = Aside(stamp=stamp, content=to_json(known.to_plain()))
        return known


_MARK = f"{READER}:".encode()


def _is_gone(folder: str) -> bool:
    try:
        Path(folder).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def _facts_in(entry: Entry) -> Facts | None:
    """Return the facts in an entry, or None where it holds something else."""
    try:
        plain: dict[str, Any] = json.loads(entry.facts)
        return Facts.from_plain(plain)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
