"""Which vault is meant, and its parts. The only place that decides it.

Light to import: completion uses it too.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BadRequest, MlxbunError, NotFound
from core.memory.redact.key import private_folder
from core.memory.vault import Vault, open_vault
from core.paths import expanded

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.memory.git import Git
    from core.memory.search.index import SearchIndex
    from core.memory.store import ConversationStore
    from core.paths import Paths

_ID = re.compile(r"[0-9a-f]{16}")
_RUN = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-z]{4}")


def _silent(_note: str) -> None:
    """Ignore a note."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A vault that exists, with what belongs to it. Each part is made when it is first used."""

    vault: Vault
    """The articles."""
    paths: Paths
    """Our folders."""
    on_note: Callable[[str], None] = field(default=_silent, repr=False)
    """Called with one sentence at a time: a cache is damaged, for example."""

    @property
    def root(self) -> Path:
        """The vault's folder, links resolved."""
        return self.vault.root

    @cached_property
    def folder(self) -> Path:
        """What memory keeps of this vault outside of it; it need not exist."""
        return self.paths.memory_folder / vault_id(self.root)

    @cached_property
    def git(self) -> Git:
        """Its repository; whether there is one, and a git, shows with the first command."""
        from core.memory.git import Git

        return Git(self.root)

    @cached_property
    def index(self) -> SearchIndex:
        """The index of its articles."""
        from core.memory.search.index import SearchIndex

        return SearchIndex(self.folder / "search.db", on_note=self.on_note)

    @cached_property
    def store(self) -> ConversationStore:
        """The conversations that were ingested for it."""
        return self.store_in(self.folder, on_note=self.on_note)

    def store_in(self, folder: Path, *, on_note: Callable[[str], None]) -> ConversationStore:
        """Return the conversations that lie in a folder, for this vault."""
        from core.memory.redact.key import vault_key
        from core.memory.store import ConversationStore

        return ConversationStore(
            folder,
            key=vault_key(self.root),
            marks=private_folder(self.root) / "forgotten",
            on_note=on_note,
        )

    def path_of(self, name: str) -> str:
        """Return the path of a page, relative to the vault; also of one that was deleted.

        Raises:
            BadRequest: the name cannot be one.
            NotFound: there never was such a page; the hint has names like it.
        """
        from core.memory.history import history
        from core.memory.names import checked_name
        from core.memory.vault import path_of

        try:
            return self.vault.find(name)
        except NotFound:
            path = path_of(checked_name(name))
            if self.git.is_top_level() and history(self.git, path, 1):
                return path
            raise

    def is_run(self, word: str) -> bool:
        """Return whether a word is the id of a run, and no article has it as its name."""
        if not _RUN.fullmatch(word):
            return False
        try:
            self.vault.find(word)
        except MlxbunError:
            return True
        return False


def vault_root(paths: Paths, vault: Path | None = None) -> Path:
    """Return the folder of the vault that is meant; it need not exist.

    Args:
        paths: our folders; they know `MLXBUN_WIKI`.
        vault: what `--vault` says; None: it was not given.
    """
    return (paths.wiki if vault is None else expanded(vault)).absolute()


def open_memory(
    paths: Paths, vault: Path | None = None, *, on_note: Callable[[str], None] = _silent
) -> Memory:
    """Open the vault that is meant.

    Args:
        paths: our folders; they know `MLXBUN_WIKI`.
        vault: what `--vault` says; None: it was not given.
        on_note: called with one sentence at a time.

    Raises:
        VaultMissing: there is none.
    """
    return Memory(vault=open_vault(vault_root(paths, vault)), paths=paths, on_note=on_note)


def root_for_program(path: str, paths: Paths) -> Path:
    """Return the folder in which a program may set up a vault, with its links resolved.

    Args:
        path: what the program sent; absolute, or with `~`.
        paths: our folders.

    Raises:
        BadRequest: it is neither inside the default vault's folder nor inside the temporary folder.
    """
    problem = BadRequest(
        "path must be inside the vault's folder or the temporary folder", field="path"
    )
    try:
        target = expanded(path)
        if not target.is_absolute():
            raise problem
        target = target.resolve()
        home, temporary = vault_root(paths).resolve(), Path(tempfile.gettempdir()).resolve()
    except (OSError, RuntimeError, ValueError):  # too long, a circle of links, a NUL
        raise problem from None
    if target.is_relative_to(home) or temporary in target.parents:
        return target
    raise problem


def vault_id(root: Path) -> str:
    """Return the random word under which a vault's caches are kept; make it if there is none.

    Where it cannot be written, it is made of the vault's path: the same for every process.
    """
    path = private_folder(root) / "id"
    with suppress(OSError):
        return _read_id(path) or _new_id(path)
    return _id_of_path(root)


def _read_id(path: Path) -> str | None:
    """Return the word in a file; None: there is no file, or it holds something else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        found = file.read(64).decode("ascii", "replace").strip()
    return found if _ID.fullmatch(found) else None


def _new_id(path: Path) -> str:
    """Write a new word; of several processes that do, one is first, and all use its word."""
    import secrets

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".id.{secrets.token_hex(8)}")
    temporary.write_text(f"{secrets.token_hex(8)}\n", encoding="ascii")
    try:
        with suppress(FileExistsError):
            os.link(temporary, path)
        if _read_id(path) is None:  # it holds something else
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return _read_id(path) or _id_of_path(path)


def _id_of_path(root: Path) -> str:
    import hashlib

    return hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
