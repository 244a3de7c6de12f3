"""Models of many tensors are opened, and what mlx-lm leaves out is found among them."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from core.quantize import source
from core.quantize.source import open_source
from tests.tiny import llama_config, make_model


def _with(folder: Path, **more: mx.array) -> None:
    file = folder / "model.safetensors"
    weights = mx.load(str(file))
    assert isinstance(weights, dict)
    mx.eval(weights)
    mx.save_safetensors(str(file), weights | more, metadata={"format": "mlx"})


def test_a_model_of_more_tensors_than_mlx_takes_by_name(tmp_path: Path) -> None:
    config = llama_config(num_hidden_layers=120, hidden_size=32, intermediate_size=32)
    folder = make_model(tmp_path / "model", config=config)
    _with(folder, **{"model.layers.7.self_attn.rotary_emb.inv_freq": mx.zeros((4,))})
    found = open_source(folder)
    assert len(found.model.layers) == 120
    assert found.useless == ("model.layers.7.self_attn.rotary_emb.inv_freq",)
    assert not found.extras


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_unused_arrays_are_found_in_parts(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_MOST_NAMES", most)
    before = {f"expert {at}": mx.full((2,), float(at)) for at in range(8)}
    same = before["expert 6"].astype(mx.float32)  # another object, the same array
    after = [mx.stack([before[f"expert {at}"] for at in range(5)]), before["expert 5"], same]
    assert source._unused(before, after) == {"expert 7"}
