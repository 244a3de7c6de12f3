"""Vaults for tests: folders with pages, without git."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.memory.vault import Vault, open_vault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def make_vault(
    root: Path,
    articles: Mapping[str, str | bytes] | None = None,
    reference: Mapping[str, str] | None = None,
) -> Vault:
    """Write pages into the folders of a vault and open it."""
    for folder in ("articles", "Reference", "Meta", "Talk"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, text in (articles or {}).items():
        data = text if isinstance(text, bytes) else text.encode()
        (root / "articles" / f"{name}.md").write_bytes(data)
    for name, text in (reference or {}).items():
        (root / "Reference" / f"{name}.md").write_bytes(text.encode())
    return open_vault(root)
