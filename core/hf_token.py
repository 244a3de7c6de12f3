"""The Hugging Face token: where one is found, and ours kept in a file of mode 0600.

`HF_TOKEN`, then the file that `hf auth login` writes, then `Paths.token_file`. The value is never
part of a message, a log line or a `repr`; messages name the place that it came from.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import MlxbunError, StoreCorrupt, UsageProblem
from core.paths import atomic_write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.paths import Paths

# What an HTTP header can carry: anything else would come back in the client's error messages.
_TOKEN = re.compile(r"[!-~]{1,512}")
_FILE_BYTES = 4096  # more than any token; a file that is larger holds something else
_TRUE = ("1", "ON", "YES", "TRUE")


@dataclass(frozen=True, kw_only=True)
class HubToken:
    """One token."""

    value: str = field(repr=False)
    """What is sent to the Hub, and nowhere else."""
    source: str
    """Where it was found, for people: `HF_TOKEN`, or a file's path."""


def find_token(paths: Paths, environ: Mapping[str, str]) -> HubToken | None:
    """Return the token to use, or None when there is none.

    `HF_HUB_DISABLE_IMPLICIT_TOKEN` means none, as it does to huggingface_hub.

    Raises:
        UsageProblem: what stands in the first place that is set cannot be a token.
        StoreCorrupt: a token file cannot be read.
    """
    if environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in _TRUE:
        return None
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if value := environ.get(name, "").strip():
            return HubToken(value=_checked(value, name), source=name)
    for file in (_hub_token_file(environ), paths.token_file):
        if value := _read(file):
            return HubToken(value=_checked(value, str(file)), source=str(file))
    return None


def has_own_token(paths: Paths) -> bool:
    """Return whether our file holds a token.

    Raises:
        StoreCorrupt: it cannot be read.
    """
    return _read(paths.token_file) != ""


def save_token(paths: Paths, value: str) -> None:
    """Keep a token in our file, readable by its owner alone.

    Raises:
        UsageProblem: it cannot be a token; the old one stays.
        MlxbunError: the file cannot be written; the old one stays.
    """
    checked = _checked(value.strip(), "What was given")
    try:
        with atomic_write(paths.token_file) as file:
            os.fchmod(file.fileno(), 0o600)  # before a byte of it is there
            file.write(checked.encode("ascii"))
    except OSError as problem:
        raise MlxbunError(
            f"The token cannot be kept in {paths.token_file}: {problem.strerror or problem}.",
            hint="Make the folder writable, or set HF_TOKEN.",
        ) from None


def delete_token(paths: Paths) -> bool:
    """Remove our file; whether there was one.

    Raises:
        MlxbunError: it cannot be removed.
    """
    try:
        paths.token_file.unlink()
    except FileNotFoundError:
        return False
    except OSError as problem:
        raise MlxbunError(
            f"The token in {paths.token_file} cannot be removed: {problem.strerror or problem}.",
            hint="Remove the file by hand.",
        ) from None
    return True


def _hub_token_file(environ: Mapping[str, str]) -> Path:
    """Return where `hf auth login` keeps its token.

    Source: huggingface_hub's `HF_TOKEN_PATH`, else `token` in `HF_HOME`.
    """
    user = Path(environ.get("HOME") or Path.home())
    xdg = Path(environ.get("XDG_CACHE_HOME") or user / ".cache")
    home = Path(environ.get("HF_HOME") or xdg / "huggingface")
    return Path(environ.get("HF_TOKEN_PATH") or home / "token").expanduser()


def _read(file: Path) -> str:
    """Return what a token file holds, without blanks around it; nothing when there is no file."""
    try:
        with file.open("rb") as opened:
            return opened.read(_FILE_BYTES).decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as problem:
        raise StoreCorrupt(
            f"The token file {file} cannot be read: {problem.strerror or problem}.",
            hint="Make it readable, remove it, or set HF_TOKEN.",
        ) from None


def _checked(value: str, place: str) -> str:
    if not _TOKEN.fullmatch(value):
        raise UsageProblem(
            f"{place} holds no Hugging Face token: one is a single word of plain characters.",
            hint="Copy the token again from the Hub's settings: it starts with hf_.",
        )
    return value
