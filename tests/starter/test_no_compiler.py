"""Without a C++ compiler, or with one that does not work, the starter answers the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.processes import mlxbun, serving

pytestmark = pytest.mark.starter

_ONLY_OURS = str(Path(sys.executable).parent)
_BROKEN = """#!/bin/sh
case "$*" in *--version*) echo "g++ 13.0"; exit 0;; esac
echo "g++: fatal error: cannot execute cc1plus" >&2
exit 1
"""


def _environ(starter_environ: dict[str, str], tmp_path: Path, path: str) -> dict[str, str]:
    # MLX keeps compiled kernels in the folder for temporary files: here it is empty.
    kernels = tmp_path / "tmp"
    kernels.mkdir()
    return {**starter_environ, "PATH": path, "TMPDIR": str(kernels)}


def test_no_compiler(starter_environ: dict[str, str], tmp_path: Path) -> None:
    environ = _environ(starter_environ, tmp_path, _ONLY_OURS)
    with serving("starter", environ=environ, log=tmp_path / "stderr") as server:
        answer = server.ask("What is the capital of France?", max_tokens=12)
        assert "Paris" in answer["choices"][0]["message"]["content"]
        compute = server.get("/stats")["compute"]
        told = server.said()
    report = json.loads(mlxbun("doctor", "--json", environ=environ).stdout)
    assert report["computing"]["compiler"] == compute["compiler"]
    if compute["device"] == "cpu":  # nothing else needs it
        assert compute["compiler"] == "none"
        assert any("g++" in note for note in compute["notes"])
        assert any("g++" in note for note in report["to_fix"])
        assert "No g++ on the PATH" in told


def test_a_compiler_that_fails(starter_environ: dict[str, str], tmp_path: Path) -> None:
    broken = tmp_path / "bin" / "g++"
    broken.parent.mkdir()
    broken.write_text(_BROKEN)
    broken.chmod(0o755)
    environ = _environ(starter_environ, tmp_path, f"{broken.parent}:{_ONLY_OURS}:/usr/bin:/bin")
    with serving("starter", environ=environ, log=tmp_path / "stderr") as server:
        answer = server.ask("What is the capital of France?", max_tokens=12)
        assert "Paris" in answer["choices"][0]["message"]["content"]
        compute = server.get("/stats")["compute"]
        assert "Traceback" not in server.said()
    report = json.loads(mlxbun("doctor", "--json", environ=environ).stdout)
    assert report["computing"]["compiler"] == compute["compiler"]
    if compute["device"] == "cpu":
        assert compute["compiler"] == "none"
        assert any("does not work" in note for note in compute["notes"])
        assert any("does not work" in note for note in report["to_fix"])
