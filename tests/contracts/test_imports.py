"""What must stay light stays light: no MLX, no server, no transformers behind --help and ls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "mlx",
    "mlx_lm",
    "transformers",
    "numpy",
    "litestar",
    "uvicorn",
    "huggingface_hub",
    "xgrammar",
    "prompt_toolkit",
    "matplotlib",
)
SCRIPT = """
import json, sys
from mlxbun_cli.main import run
code = run(sys.argv[1:])
print("\\n" + json.dumps({"code": code, "modules": sorted(sys.modules)}))
"""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["serve", "--help"], ["generate", "--help"],
     ["chat", "--help"], ["ls"],
     ["bench", "--help"], ["bench", "history"], ["perplexity", "--help"],
     ["ls", "--json"], ["ps"], ["stop", "--help"], ["config", "show"], ["download", "--help"],
     ["upload", "--help"],
     ["gc"], ["gc", "--json"], ["jobs", "list"], ["doctor", "--help"]],
    ids=" ".join,
)  # fmt: skip
def test_light_commands_import_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        env=os.environ | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["code"] == 0
    assert [name for name in HEAVY if name in report["modules"]] == []


def test_planning_code_imports_no_arrays() -> None:
    script = "import core.engine.scheduler, core.engine.output, core.engine.start, sys;"
    script += "print([m for m in sys.modules if m.split('.')[0] in ('mlx', 'mlx_lm', 'numpy')])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
