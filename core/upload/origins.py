"""What a name in a config stands for: a repository on the Hub, or a place on this disk.

Configs of trainings hold whatever the user typed: `org/name`, a path into the Hugging Face cache, a
folder. Only what is a repository gets into a card.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.download.names import COMMIT
from core.provenance import Origin, is_repo_id
from core.registry.files import printable, read_bytes
from core.registry.places import PREFIX
from core.upload.front_matter import split_card, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST_CARD = 2**20  # bytes of a card that are read
_CARRIED = ("license", "license_name", "license_link")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a base model's card says that goes on to what is made of it."""

    license: Mapping[str, str]
    """`license`, and for the license `other` its `license_name` and `license_link`."""
    language: tuple[str, ...]
    """Language codes."""
    pipeline_tag: str | None
    """The Hub's word for what it does."""


NO_TERMS = Terms(license={}, language=(), pipeline_tag=None)


def origin_of(name: Any, *, beside: Path) -> Origin | None:
    """Return the repository that a config's entry means, or None when it means none for sure.

    Args:
        name: the entry, of any type.
        beside: the folder of the config: a name that is a path from there, or from the current
            folder, is no repository.
    """
    if not isinstance(name, str) or not name or len(name) > 4096:
        return None
    if found := _in_cache(name):
        return found
    if is_repo_id(name) and not _is_here(name, beside):
        return Origin(repo_id=name)
    return None


def name_of_data(name: Any, *, beside: Path) -> str | None:
    """Return what to call a training's data: a repository, or the last part of a path."""
    if not isinstance(name, str) or not name.strip():
        return None
    if found := origin_of(name, beside=beside):
        return found.repo_id
    return printable(Path(name).name) or None


def tells_paths(content: Mapping[str, Any]) -> list[str]:
    """Return the keys of a config whose values are paths on this machine."""
    return [key for key, value in content.items() if isinstance(value, str) and _is_path(value)]


def read_terms(origin: Origin, hub_cache: Path) -> Terms:
    """Return what the card of a base model says, where this machine has it. Opens no network."""
    repository = hub_cache / f"{PREFIX}{origin.repo_id.replace('/', '--')}"
    for snapshot in _snapshots(repository, origin.revision):
        try:
            text = read_bytes(snapshot / "README.md", limit=_MOST_CARD).decode("utf-8", "replace")
        except OSError:
            continue
        return terms_in(split_card(text).data)
    return NO_TERMS


def terms_in(data: Mapping[str, Any]) -> Terms:
    """Return what a card's block says."""
    license_ = {key: data[key] for key in _CARRIED if texts(data.get(key)) and key in data}
    tag = data.get("pipeline_tag")
    return Terms(
        license={key: texts(value)[0] for key, value in license_.items()},
        language=texts(data.get("language")),
        pipeline_tag=tag if isinstance(tag, str) and len(tag) < 60 else None,
    )


def _snapshots(repository: Path, revision: str | None) -> Iterator[Path]:
    """Yield snapshots, the likeliest first."""
    folder = repository / "snapshots"
    if revision is not None and COMMIT.fullmatch(revision):
        yield folder / revision
    with suppress(OSError):
        main = read_bytes(repository / "refs" / "main", limit=1024).decode("ascii", "replace")
        if COMMIT.fullmatch(main.strip()):
            yield folder / main.strip()
    with suppress(OSError):
        yield from sorted(path for path in folder.iterdir() if COMMIT.fullmatch(path.name))


def _in_cache(name: str) -> Origin | None:
    """Return the repository of a path into a Hugging Face cache, wherever that lies."""
    parts = Path(name).parts
    for place, part in enumerate(parts):
        repo_id = part.removeprefix(PREFIX).replace("--", "/")
        if part.startswith(PREFIX) and is_repo_id(repo_id):
            rest = parts[place + 1 : place + 3]
            commit = rest[1] if len(rest) == 2 and rest[0] == "snapshots" else ""
            return Origin(repo_id=repo_id, revision=commit if COMMIT.fullmatch(commit) else None)
    return None


def _is_here(name: str, beside: Path) -> bool:
    folders = [Path.cwd(), beside, *list(beside.parents)[:3]]
    return any(os.path.lexists(folder / name) for folder in folders)


def _is_path(value: str) -> bool:
    return value.startswith(("/", "~", "./", "../")) and len(value) > 1
