"""A home with a vault in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.memory.vaults import write_vault


@pytest.fixture
def vault(fresh_environ: dict[str, str]) -> Path:
    """A vault without a repository, where it is by default."""
    return write_vault(Path(fresh_environ["HOME"]) / ".mlxbun" / "wiki")
