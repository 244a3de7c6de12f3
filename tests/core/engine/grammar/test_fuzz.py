"""No form that can be sent ends the process; see `fuzz`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize("examples", [120, pytest.param(4000, marks=pytest.mark.slow)])
def test_any_form_is_compiled_or_refused(examples: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.core.engine.grammar.fuzz", str(examples)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "lost" in json.loads(done.stdout)
