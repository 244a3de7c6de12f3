"""An empty cache for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.gc.box import Box


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box.at(tmp_path)
