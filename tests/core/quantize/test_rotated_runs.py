"""Whole runs with a rotation, and with measured KV widths."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model

from core.errors import UsageProblem
from tests.core.fit.tiny_families import tiny_config
from tests.core.quantize.box import Box, config_of
from tests.tiny import make_model

_TOKENS = [[3, 1, 4, 1, 5, 9, 2, 6]]


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path / "box")


def _logits(folder: Path) -> mx.array:
    logits: mx.array = load_model(folder)[0](mx.array(_TOKENS))
    return logits


def _near(found: mx.array, expected: mx.array) -> bool:
    """Return whether only rounding lies between logits; a wrong rotation leaves nothing alike."""
    error = mx.sqrt(mx.mean(mx.square(found - expected)))
    return bool(error < 0.1 * mx.std(expected))


def test_a_rotated_residual_unties_the_embedding_and_counts_the_copy(box: Box) -> None:
    folder = box.model()
    plain = box.quantize(folder, bits=8)
    result = box.quantize(folder, bits=8, rotate_weights=True)
    assert result.repo_id == "local/model-OptiQ-8bit-g32-rot42"
    assert config_of(result.folder)["tie_word_embeddings"] is False
    arrays = dict(tree_flatten(load_model(result.folder)[0].parameters()))
    assert "lm_head.weight" in arrays
    assert sum(array.nbytes for array in arrays.values()) > 1.1 * sum(
        array.nbytes for _, array in tree_flatten(load_model(plain.folder)[0].parameters())
    )
    assert any("embedding becomes two tensors" in note for note in box.notes)
    assert _near(_logits(result.folder), _logits(folder))


def test_rotated_values_keep_the_tie(box: Box) -> None:
    folder = box.model()
    result = box.quantize(folder, bits=8, rotate_weights=True, rotation_form="values")
    assert config_of(result.folder)["tie_word_embeddings"] is True
    assert "lm_head.weight" not in dict(tree_flatten(load_model(result.folder)[0].parameters()))
    assert _near(_logits(result.folder), _logits(folder))


def test_norms_after_the_block_are_refused_by_name(box: Box) -> None:
    folder = make_model(box.root / "gemma2", config=tiny_config("gemma2"))
    with pytest.raises(UsageProblem, match=r"gemma2 .* norms after attention and MLP"):
        box.quantize(folder, rotate_weights=True)


def test_measured_kv_widths_travel_with_the_model(box: Box) -> None:
    result = box.quantize(box.model(head_dim=32), kv_config=True, n_calibration=2)
    entries = json.loads((result.folder / "kv_config.json").read_text())
    assert entries
    assert all(entry.keys() == {"layer_idx", "bits", "group_size"} for entry in entries)
    assert all(entry["bits"] in (4, 8) and entry["group_size"] == 32 for entry in entries)
