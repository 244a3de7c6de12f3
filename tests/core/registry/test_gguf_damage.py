"""A GGUF file is foreign input: damage and strange kinds are refused in one sentence."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import BadModelFiles
from core.registry.gguf import import_gguf
from core.registry.gguf.container import GgufFile, read_gguf
from core.registry.gguf.metadata import number
from tests.ggufs import Tensor, TinyLlama, quantize, tiny_llama, write_gguf


def _refused(path: Path, tmp_path: Path) -> str:
    with pytest.raises(BadModelFiles) as caught:
        import_gguf(path, tmp_path)
    assert caught.value.hint
    assert not (tmp_path / "config.json").exists()
    assert caught.value.message.count("\n") == 0
    return caught.value.message


def test_no_gguf_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    for content in (b"", b"GG", b"PK\x03\x04" + bytes(100)):
        path.write_bytes(content)
        _refused(path, tmp_path)


def test_cut_short_anywhere(tmp_path: Path) -> None:
    whole = tiny_llama().write(tmp_path / "whole.gguf").read_bytes()
    path = tmp_path / "cut.gguf"
    for length in range(0, len(whole) - 64, 997):
        path.write_bytes(whole[:length])
        assert "cut" in _refused(path, tmp_path)


def test_another_version(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "x.gguf", {}, {}, version=1)
    assert "version 1" in _refused(path, tmp_path)


@pytest.mark.parametrize(
    "tail",
    [
        struct.pack("<QQ", 2**60, 0),  # tensors without end
        struct.pack("<QQ", 0, 2**60),  # metadata without end
        struct.pack("<QQQ", 0, 1, 2**63),  # a text without end
        struct.pack("<QQQ1sI", 0, 1, 1, b"k", 99),  # a value of no known type
        struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 8, 2**40),  # an array without end
        struct.pack("<QQQ1sIIQ", 0, 1, 1, b"k", 9, 9, 1),  # an array of arrays
        struct.pack("<QQQ1s", 0, 1, 1, b"\xff"),  # not UTF-8
        struct.pack("<QQQ300sI", 1, 0, 300, b"t" * 300, 1),  # a name without end
        struct.pack("<QQQ1sI", 1, 0, 1, b"t", 2**31),  # dimensions without end
        struct.pack("<QQQ1sIQQIQ", 1, 0, 1, b"t", 2, 2**40, 2**40, 0, 0),  # beyond all memory
        struct.pack("<QQQ1sIQIQ", 1, 0, 1, b"t", 1, 32, 0, 2**63),  # an offset beyond the end
        struct.pack("<QQQ1sIQIQ", 1, 0, 1, b"t", 1, 0, 0, 0),  # a tensor of nothing
        struct.pack("<QQQ1sIQIQ", 1, 0, 1, b"t", 1, 31, 8, 0),  # a block cut in two
        struct.pack("<QQQ1sIQIQ", 1, 0, 1, b"t", 1, 1, 0, 4),  # an offset that is not aligned
        struct.pack(
            "<QQQ1sIQIQQ1sIQIQ", 2, 0, 1, b"t", 1, 16, 0, 0, 1, b"u", 1, 8, 0, 32
        ),  # overlap
    ],
)
def test_numbers_that_lie(tail: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + tail + bytes(64))
    _refused(path, tmp_path)


def test_tensors_that_overlap_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    rows = struct.pack("<Q1sIQIQ", 1, b"t", 1, 16, 0, 0) + struct.pack(
        "<Q1sIQIQ", 1, b"u", 1, 8, 0, 32
    )
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 2, 0) + rows + bytes(128))
    assert "'t' and 'u' overlap" in _refused(path, tmp_path)


def test_a_header_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file is as long as its author likes, and takes no room on the disk."""
    monkeypatch.setattr("core.registry.gguf.container.MAX_HEADER", 2**16)
    path = tmp_path / "x.gguf"
    array = struct.pack("<Q2sIIQ", 2, b"%02d" % 0, 9, 0, 2**17)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + array)
    with path.open("r+b") as file:
        file.truncate(2**33)
    assert "header takes more than" in _refused(path, tmp_path)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("m-00001-of-00000.gguf", "claims 0 files"),
        ("m-00001-of-99999.gguf", "claims 99999 files"),
        ("m-00003-of-00004.gguf", "m-00001-of-00004.gguf and 2 more is missing"),
    ],
)
def test_numbers_of_files_that_lie(name: str, named: str, tmp_path: Path) -> None:
    tiny_llama().write(tmp_path / name)
    assert named in _refused(tmp_path / name, tmp_path)


def test_a_tensor_in_two_files_of_a_model(tmp_path: Path) -> None:
    for part in (1, 2):
        tiny_llama().write(tmp_path / f"m-0000{part}-of-00002.gguf")
    assert "a second time" in _refused(tmp_path / "m-00001-of-00002.gguf", tmp_path)


def test_a_kind_of_tensor_that_is_not_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    row = struct.pack("<QQQ1sIQIQ", 1, 0, 1, b"t", 1, 256, 28, 0)
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + row + bytes(512))
    assert "F64" in _refused(path, tmp_path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_flipped_bytes_are_refused_or_read_never_worse(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    content = bytearray(_small_file(folder))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = folder / "flipped.gguf"
    path.write_bytes(content)
    with suppress(BadModelFiles):
        read_gguf(path)


def _small_file(folder: Path) -> bytes:
    path = folder / "small.gguf"
    if not path.exists():
        metadata = {"general.architecture": "llama", "list": [1, 2], "words": ["a", "b"]}
        tensors = {name: quantize("Q4_0", np.ones((2, 32), np.float32)) for name in ("a", "b")}
        write_gguf(path, metadata, tensors)
    return path.read_bytes()


def _set(key: str, value: Any) -> Callable[[TinyLlama], None]:
    return lambda model: model.metadata.__setitem__(key, value)


def _drop(name: str) -> Callable[[TinyLlama], None]:
    return lambda model: (
        model.tensors.__delitem__(name)
        if name in model.tensors
        else (model.metadata.__delitem__(name))
    )


def _extra(name: str, width: int) -> Callable[[TinyLlama], None]:
    tensor: Tensor = quantize("F32", np.arange(1, width + 1, dtype=np.float32))
    return lambda model: model.tensors.__setitem__(name, tensor)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_set("general.architecture", "mamba"), "mamba"),
        (_set("llama.expert_count", 8), "mixture of experts"),
        (_set("llama.block_count", 3), "blk.2.attn_norm.weight"),
        (_set("llama.block_count", 2**31 - 1), "layers"),
        (_set("llama.block_count", 1), "blk.1."),
        (_set("llama.attention.head_count", 0), "head_count"),
        (_set("llama.attention.head_count", [4, 4]), "head_count"),
        (_set("llama.attention.head_count_kv", 3), "heads"),
        (_set("llama.feed_forward_length", 97), "ffn_gate"),
        (_set("llama.rope.dimension_count", 8), "rotates a part"),
        (_set("llama.rope.scaling.type", "su"), "su"),
        (_set("llama.attention.layer_norm_rms_epsilon", float("nan")), "rms_epsilon"),
        (_drop("llama.context_length"), "context_length"),
        (_drop("token_embd.weight"), "token_embd.weight"),
        (_drop("blk.1.ffn_up.weight"), "blk.1.ffn_up.weight"),
        (_extra("blk.0.attn_q.bias", 64), "blk.0.attn_q.bias"),
        (_extra("rope_freqs.weight", 8), "Llama 3"),
        (_set("tokenizer.ggml.model", "bert"), "bert"),
        (_set("tokenizer.ggml.pre", "viking"), "viking"),
        (_set("tokenizer.ggml.merges", ["h e", "q q q"]), "merge"),
        (_set("tokenizer.ggml.merges", ["h j"]), "merge"),
        (_set("tokenizer.ggml.token_type", [1, 2]), "kinds"),
        (_set("tokenizer.ggml.eos_token_id", 9999), "eos"),
        (_set("tokenizer.ggml.tokens", ["a"] * 264), "twice"),
        (_set("tokenizer.ggml.tokens", [str(i) for i in range(999)]), "999 tokens"),
        (_drop("tokenizer.ggml.tokens"), "tokens"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(
    change: Callable[[TinyLlama], None], named: str, tmp_path: Path
) -> None:
    model = tiny_llama()
    change(model)
    assert named in _refused(model.write(tmp_path / "tiny.gguf"), tmp_path)


def test_a_scale_beyond_float16_is_refused(tmp_path: Path) -> None:
    model = tiny_llama()
    bad = Tensor("Q4_0", np.zeros((64, 96), np.float32), b"\x00\x7c" * (64 * 96 // 32 * 9))
    model.tensors["blk.0.ffn_down.weight"] = bad
    with pytest.raises(BadModelFiles, match="ffn_down"):
        import_gguf(model.write(tmp_path / "tiny.gguf"), tmp_path)


@pytest.mark.parametrize("value", [1e300, 1e-300, 0, -1, float("nan"), float("inf"), True, "1"])
def test_numbers_that_are_none_in_float32(value: object, tmp_path: Path) -> None:
    metadata = {"general.architecture": "llama", "llama.rope.freq_base": value}
    gguf = GgufFile(path=tmp_path / "x.gguf", metadata=metadata, tensors={})
    with pytest.raises(BadModelFiles, match="must be a positive number"):
        number(gguf, "rope.freq_base")
