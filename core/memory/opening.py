"""Which vault is meant, and its parts. The only place that decides it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BadRequest
from core.memory.vault import Vault, open_vault
from core.paths import expanded

if TYPE_CHECKING:
    from core.memory.git import Git
    from core.memory.search.index import SearchIndex
    from core.memory.store import ConversationStore
    from core.paths import Paths


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A vault that exists, with what belongs to it. Parts are opened when they are used."""

    vault: Vault
    """The articles."""
    paths: Paths
    """Our folders."""


def vault_root(paths: Paths, vault: Path | None = None) -> Path:
    """Return the folder of the vault that is meant; it need not exist.

    Args:
        paths: our folders; they know `MLXBUN_WIKI`.
        vault: what `--vault` says; None: it was not given.
    """
    return (paths.wiki if vault is None else expanded(vault)).absolute()


def open_memory(paths: Paths, vault: Path | None = None) -> Memory:
    """Open the vault that is meant.

    Args:
        paths: our folders; they know `MLXBUN_WIKI`.
        vault: what `--vault` says; None: it was not given.

    Raises:
        VaultMissing: there is none.
    """
    return Memory(vault=open_vault(vault_root(paths, vault)), paths=paths)


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
        target = expanded(path).resolve()
        home, temporary = vault_root(paths).resolve(), Path(tempfile.gettempdir()).resolve()
    except (OSError, RuntimeError, ValueError):  # too long, a circle of links, a NUL
        raise problem from None
    if not expanded(path).is_absolute():
        raise problem
    if target.is_relative_to(home) or temporary in target.parents:
        return target
    raise problem
