"""Whether a path may be uploaded by a program that only names it: a model, an adapter, or data.

`mlxbun upload` shows a person what goes out, and takes any folder whose type is named. Behind a
route nobody looks, so what is not plainly one of these is refused.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BadModelFiles
from core.registry.files import printable
from core.upload.kinds import DATA_ENDINGS, detect_kind, repo_type_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.upload.gather import LocalFile
    from core.upload.target import RepoType

_DATA_FOLDER = "data"  # where repositories of data keep their files, if not at the top
_NAMES = {"model": "a model or an adapter", "dataset": "a data set"}


def check_source(source: Path, repo_type: RepoType, *, home: str | None) -> None:
    """Refuse what is not of a type, and folders that hold more than one thing.

    Args:
        source: a folder, or a file of data.
        repo_type: what it must be.
        home: the user's home folder, or None.

    Raises:
        NotFound: there is nothing at the path.
        BadModelFiles: it is something else.
    """
    shown = printable(str(source), 200)
    crowded = BadModelFiles(
        f"{shown} holds more than {_NAMES[repo_type]}.",
        hint="Name the folder in which its files lie.",
    )
    if source.is_dir() and _holds(source, home):  # before it is searched: it may be the whole disk
        raise crowded
    kind = detect_kind(source)
    if repo_type_of(kind) != repo_type:
        raise BadModelFiles(
            f"{shown} is not {_NAMES[repo_type]}.",
            hint="A model goes to /api/quantize/push, an adapter to /api/finetune/push, data to "
            "/api/dataset/push.",
        )
    if source.is_dir() and not _is_one_thing(source, repo_type):
        raise crowded


def check_links(source: Path, files: Sequence[LocalFile]) -> None:
    """Refuse links that lead out of what is uploaded: a snapshot leads into its repository.

    Args:
        source: a folder, or a file of data.
        files: what is uploaded of it.

    Raises:
        BadModelFiles: one leads somewhere else.
    """
    folder = (source if source.is_dir() else source.parent).resolve()
    homes = [folder]
    if folder.parent.name == "snapshots":
        homes.append(folder.parent.parent / "blobs")
    shown = printable(str(source), 200)
    for file in files:
        target = file.path.resolve()
        if not any(target.is_relative_to(home) for home in homes):
            raise BadModelFiles(
                f"{printable(file.name)} is a link that leads out of {shown}.",
                hint="Put the file itself there, or upload the folder with `mlxbun upload`.",
            )


def _holds(source: Path, home: str | None) -> bool:
    """Return whether a folder is the user's home, or one that homes lie in."""
    own = Path(home).resolve() if home else Path.home().resolve()
    folder = source.resolve()
    return folder == own or folder in own.parents


def _is_one_thing(source: Path, repo_type: RepoType) -> bool:
    """Return whether data lie at the top of a folder, or in its folder for them."""
    if repo_type != "dataset":
        return True
    folders = [folder for folder in (source, source / _DATA_FOLDER) if folder.is_dir()]
    names = [entry.name for folder in folders for entry in os.scandir(folder)]
    return any(name.lower().endswith(DATA_ENDINGS) and name[:1] != "." for name in names)
