"""The examples on the real starter, shortened: what they teach is learned.

Each in a process of its own: a fast BLAS has to be there before MLX is imported.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from core.fields import read_table_file
from tests.processes import SCRIPT, environ_of

# Budget: 4 minutes in all.
pytestmark = [pytest.mark.starter, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def train(config: str, model: Path, place: Path, **fields: object) -> dict[str, Any]:
    """Train as the example says, but for some fields, and return how it ended."""
    told = read_table_file(EXAMPLES / config)
    places = {"model_dir": str(model), "adapter_path": str(place / "out")}
    data = {"data_dir": str((EXAMPLES / config).parent / "data")}
    (place / "train.json").write_text(json.dumps(told | data | places | fields))
    done = subprocess.run(
        [SCRIPT, "train", "--config", str(place / "train.json"), "--json"],
        env=environ_of(place / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    end: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert end["event"] == "done"
    return end


def test_a_form_of_answers(starter_folder: Path, tmp_path: Path) -> None:
    end = train("answer_format/train.toml", starter_folder, tmp_path, iters=16, steps_per_eval=0)
    assert end["before"]["loss"] > 3
    assert end["after"]["loss"] < 1
    assert end["after"]["perplexity"] < 3


@pytest.mark.parametrize("method", ["dpo", "orpo"])
def test_a_preference(starter_folder: Path, tmp_path: Path, method: str) -> None:
    end = train(f"asks_back/{method}.toml", starter_folder, tmp_path, iters=12)
    assert end["before"]["accuracy"] < 0.2
    assert end["after"]["accuracy"] > 0.8
    told = json.loads((tmp_path / "out" / "mlxbun.json").read_text())
    assert told["recipe"]["method"] == method
