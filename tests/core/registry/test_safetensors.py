"""The writer's files are safetensors, whatever the order of the pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from core.registry.safetensors import SafetensorsWriter, tensor_size


def _writer(path: Path) -> SafetensorsWriter:
    return SafetensorsWriter(path, tensors=4, metadata={"format": "mlx"})


def test_tensors_whose_pieces_take_turns(tmp_path: Path) -> None:
    words = np.arange(12, dtype=np.uint32).reshape(4, 3)
    scales = np.arange(8, dtype=np.float16).reshape(4, 2)
    with _writer(tmp_path / "x.safetensors") as writer:
        writer.reserve("words", "uint32", words.shape)
        writer.reserve("scales", "float16", scales.shape)
        for row in range(4):
            writer.put("scales", scales[row])
            writer.put("words", words[row])
        writer.add("behind", np.ones(2, np.float32))
    found = load_file(tmp_path / "x.safetensors")
    assert np.array_equal(found["words"], words)
    assert np.array_equal(found["scales"], scales)
    assert np.array_equal(found["behind"], np.ones(2))


def test_bfloat16_comes_as_its_bits(tmp_path: Path) -> None:
    import mlx.core as mx

    with _writer(tmp_path / "x.safetensors") as writer:
        writer.reserve("x", "bfloat16", (2,))
        writer.put("x", np.array([0x3F80, 0xC000], np.uint16))
    found = mx.load(str(tmp_path / "x.safetensors"))
    assert isinstance(found, dict)
    assert found["x"].dtype == mx.bfloat16
    assert found["x"].tolist() == [1.0, -2.0]


@pytest.mark.parametrize(("numbers", "said"), [(3, "more bytes"), (1, "4 of 8 bytes")])
def test_a_piece_too_many_or_too_few_is_a_mistake(numbers: int, said: str, tmp_path: Path) -> None:
    def write() -> None:
        with _writer(tmp_path / "x.safetensors") as writer:
            writer.reserve("x", "float32", (2,))
            writer.put("x", np.zeros(numbers, np.float32))

    with pytest.raises(ValueError, match=said):
        write()


def test_sizes() -> None:
    assert tensor_size("bfloat16", (3, 5)) == 30
    assert tensor_size("uint8", ()) == 1
