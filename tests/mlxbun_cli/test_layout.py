"""A stranger's `core` or `commands` is refused in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["core", "commands"])
def test_a_foreign_package_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "mlxbun_cli", "--version"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"the package '{name}' is taken from {tmp_path}" in done.stderr
