"""`mlxbun perplexity` as users run it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from core.evals.heldout import DOMAINS, heldout_digest
from tests.core.train.runs import write_rows
from tests.lora import make_adapter
from tests.processes import mlxbun
from tests.tiny import make_model


def measured(*words: str, environ: Mapping[str, str], cwd: Path | None = None) -> dict[str, Any]:
    done = mlxbun("perplexity", *words, "--json", environ=environ, cwd=cwd)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_held_out_text_needs_no_network(environ: Mapping[str, str], tiny_model: str) -> None:
    found = measured(tiny_model, "--sequence-length", "128", "--offline", environ=environ)
    assert found["data"] is None
    assert found["data_sha256"] == heldout_digest()
    assert found["sequences"] == 256
    assert {each["domain"] for each in found["domains"]} == set(DOMAINS)
    assert found["tokens"] == sum(each["tokens"] for each in found["domains"])
    loss = sum(each["tokens"] * math.log(each["perplexity"]) for each in found["domains"])
    assert found["perplexity"] == pytest.approx(math.exp(loss / found["tokens"]), rel=1e-4)


def test_a_file_of_ones_own(environ: Mapping[str, str], tiny_model: str, tmp_path: Path) -> None:
    write_rows(tmp_path, [{"text": "The river runs to the sea. " * 20}], "river.jsonl")
    words = (tiny_model, "--data", "river.jsonl", "--sequence-length", "64")
    done = mlxbun("perplexity", *words, "--seed", "1", environ=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["DOMAIN", "TOKENS", "PERPLEXITY"]
    assert [line.split()[0] for line in lines[1:]] == ["all"]
    assert "--seed has no effect: all 9 sequences are measured." in done.stderr
    assert "tokens/s, peak memory" in done.stderr


def test_samples_are_chosen_by_seed(
    environ: Mapping[str, str], tiny_model: str, tmp_path: Path
) -> None:
    write_rows(tmp_path, [{"text": f"{n} rivers. "} for n in range(200)], "rivers.jsonl")
    words = (tiny_model, "--data", "rivers.jsonl", "--sequence-length", "16", "--num-samples", "5")
    one, same, other = (
        measured(*words, "--seed", seed, environ=environ, cwd=tmp_path) for seed in "112"
    )
    assert one["sequences"] == 5
    assert one["loss"] == same["loss"] != other["loss"]


def test_an_adapter_changes_the_number(
    environ: Mapping[str, str], tiny_model: str, tmp_path: Path
) -> None:
    write_rows(tmp_path, [{"text": "The river runs to the sea."}], "river.jsonl")
    make_adapter(tmp_path / "lora")
    plain = measured(tiny_model, "--data", "river.jsonl", environ=environ, cwd=tmp_path)
    words = (tiny_model, "--data", "river.jsonl", "--adapter", "./lora")
    changed = measured(*words, environ=environ, cwd=tmp_path)
    assert (plain["adapter"], changed["adapter"]) == (None, "lora")
    assert plain["loss"] != changed["loss"]


@pytest.mark.parametrize("bits", [None, 4])
def test_nan_weights_end_it(environ: Mapping[str, str], tmp_path: Path, bits: int | None) -> None:
    model = make_model(tmp_path / "broken", bits=bits)
    tensors = load_file(model / "model.safetensors")
    tensors["model.norm.weight"][0] = np.nan
    save_file(tensors, model / "model.safetensors", metadata={"format": "mlx"})
    done = mlxbun("perplexity", str(model), "--num-samples", "1", "--json", environ=environ)
    assert done.returncode == 7
    assert "logits are NaN or infinite" in done.stderr
    assert "nan" not in done.stdout.replace("NaN or", "")
