"""The examples on the real starter, shortened: what they teach is learned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.train.config import make_config, read_config_file
from tests.core.train.runs import run

# Budget: 4 minutes in all.
pytestmark = [pytest.mark.starter, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def shortened(name: str, model: Path, out: Path, **fields: object) -> dict[str, object]:
    told = read_config_file(EXAMPLES / name / "train.toml")
    places = {"model_dir": str(model), "adapter_path": str(out)}
    return told | {"data_dir": str(EXAMPLES / name / "data")} | places | fields


def test_a_form_of_answers(starter_folder: Path, tmp_path: Path) -> None:
    fields = shortened(
        "answer_format", starter_folder, tmp_path / "out", iters=16, steps_per_eval=0
    )
    result = run(make_config(fields), tmp_path / "home", blas="auto")
    assert result.before.loss > 3
    assert result.after.loss < 1
    assert result.after.perplexity < 3


@pytest.mark.parametrize("method", ["dpo", "orpo"])
def test_a_preference(starter_folder: Path, tmp_path: Path, method: str) -> None:
    fields = shortened("short_answers", starter_folder, tmp_path / "out", method=method, iters=12)
    result = run(make_config(fields), tmp_path / "home", blas="auto")
    assert result.before.accuracy is not None
    assert result.after.accuracy is not None
    assert result.after.accuracy >= max(0.8, result.before.accuracy)
    assert json.loads((tmp_path / "out" / "mlxbun.json").read_text())["recipe"]["method"] == method
