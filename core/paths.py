"""Where things lie: our own folders and the Hugging Face cache. Reads a given environment only."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, kw_only=True)
class Paths:
    """The folders that mlxbun reads and writes."""

    home: Path
    """Settings and what the user made: `~/.mlxbun`, or `MLXBUN_HOME`."""
    cache: Path
    """What can be made again: `~/.cache/mlxbun`, or `MLXBUN_CACHE`."""
    hub_cache: Path
    """The Hugging Face cache, found as huggingface_hub finds it."""
    wiki_folder: Path | None = None
    """The memory vault that `MLXBUN_WIKI` names; None: `wiki` in `home`."""

    @property
    def config_file(self) -> Path:
        """The settings file."""
        return self.home / "config.toml"

    @property
    def run_folder(self) -> Path:
        """Where running servers leave their files."""
        return self.home / "run"

    @property
    def token_file(self) -> Path:
        """Our own copy of a Hugging Face token, for `core.hf_token`."""
        return self.home / "hf-token"

    @property
    def downloads_file(self) -> Path:
        """Which downloads run and have run, for `core.download.ledger`."""
        return self.cache / "downloads.db"

    @property
    def library_file(self) -> Path:
        """What was read of the models on this disk, for `core.registry.index`."""
        return self.cache / "library.db"

    @property
    def figures_file(self) -> Path:
        """What was measured on this machine, for `core.figures`."""
        return self.home / "bench.db"

    @property
    def jobs_folder(self) -> Path:
        """The list of jobs and their logs, for `core.jobs`."""
        return self.home / "jobs"

    @property
    def lease_file(self) -> Path:
        """Who trains or quantizes now, for `core.jobs.lease`."""
        return self.run_folder / "accelerator.lock"

    @property
    def sessions_folder(self) -> Path:
        """What was said in chats, for `core.sessions`."""
        return self.home / "sessions"

    @property
    def wiki(self) -> Path:
        """The memory vault, for `core.memory`."""
        return self.wiki_folder or self.home / "wiki"

    @property
    def memory_folder(self) -> Path:
        """What memory keeps outside of the vault, one folder per vault, for `core.memory`."""
        return self.cache / "memory"

    @property
    def adapters_folder(self) -> Path:
        """Where adapters go whose place was not named."""
        return self.cache / "adapters"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Paths:
        """Work the folders out of an environment, by the rules of each owner.

        Source for the last: huggingface_hub's environment variables `HF_HUB_CACHE`,
        `HUGGINGFACE_HUB_CACHE`, `HF_HOME` and `XDG_CACHE_HOME`, in that order.
        """
        user = Path(environ.get("HOME") or Path.home())
        xdg = Path(environ.get("XDG_CACHE_HOME") or user / ".cache")
        hf_home = Path(environ.get("HF_HOME") or xdg / "huggingface")
        hub = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE")
        wiki = environ.get("MLXBUN_WIKI")
        return cls(
            home=Path(environ.get("MLXBUN_HOME") or user / ".mlxbun").expanduser(),
            cache=Path(environ.get("MLXBUN_CACHE") or xdg / "mlxbun").expanduser(),
            hub_cache=Path(hub or hf_home / "hub").expanduser(),
            wiki_folder=Path(wiki).expanduser() if wiki else None,
        )


TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
"""Names to which `atomic_write` writes before it renames."""


def remove_temporary(folder: Path) -> None:
    """Delete what writes that were killed have left in a folder, as far as that is possible.

    For folders that no other process writes to at the moment.
    """
    for file in folder.glob(".*.tmp"):
        if TEMPORARY.fullmatch(file.name):
            with suppress(OSError):
                file.unlink()


@contextmanager
def atomic_write(target: Path) -> Iterator[IO[bytes]]:
    """Write a file whole or not at all: a temporary name beside it, fsync, rename.

    Yields:
        A binary file. When the block raises, the temporary file goes and `target` stays as it was.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    import secrets  # brings OpenSSL along, which those who only read do not need

    target.parent.mkdir(parents=True, exist_ok=True)
    # Not the process id: threads write too, and so do containers that share a folder.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def expanded(name: str | Path) -> Path:
    """Return a path as somebody wrote it, `~` read as a home; nobody's home stays as it is."""
    with suppress(RuntimeError):
        return Path(name).expanduser()
    return Path(name)
