"""What there is in a vault, in numbers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.memory.vault import path_of

if TYPE_CHECKING:
    from pathlib import Path

    from core.memory.vault import Vault

_RECENT = 8


@dataclass(frozen=True, kw_only=True)
class Recent:
    """An article that was written lately."""

    article: str
    """Its name."""
    modified: float
    """Unix seconds."""


@dataclass(frozen=True, kw_only=True)
class VaultStatus:
    """What there is in a vault."""

    root: Path
    """Its folder."""
    articles: int
    """How many articles there are."""
    reference: int
    """How many pages of documentation there are."""
    is_git: bool
    """Whether it is a git repository of its own."""
    recent: tuple[Recent, ...]
    """The articles written last, the latest first; at most 8."""


def vault_status(vault: Vault) -> VaultStatus:
    """Look a vault over."""
    names = vault.names()
    return VaultStatus(
        root=vault.root,
        articles=len(names.articles),
        reference=len(names.reference),
        is_git=vault.is_git,
        recent=_recent(vault, names.articles),
    )


def _recent(vault: Vault, names: tuple[str, ...]) -> tuple[Recent, ...]:
    found: list[Recent] = []
    for name in names:
        with suppress(OSError):  # deleted meanwhile
            modified = (vault.root / path_of(name)).lstat().st_mtime
            found.append(Recent(article=name, modified=modified))
    return tuple(sorted(found, key=lambda each: -each.modified)[:_RECENT])
