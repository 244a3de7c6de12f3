"""Headers are read and never believed; data are never read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import BadModelFiles
from core.registry.weights import (
    BrokenWeightsError,
    check_weights,
    count_tensors,
    parse_header,
    read_header,
    read_headers,
)
from tests.caches import safetensors, write_sparse

ONE = {"a": ("F32", (2, 3)), "b": ("BF16", (5,))}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def _with_header(header: bytes, data: int = 0) -> bytes:
    return len(header).to_bytes(8, "little") + header + bytes(data)


def _described(**tensor: Any) -> bytes:
    whole = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | tensor
    return _with_header(json.dumps({"a": whole}).encode(), 8)


def test_a_header_is_returned_without_its_metadata(file: Path) -> None:
    header = json.dumps(
        {
            "__metadata__": {"format": "mlx"},
            "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        }
    )
    file.write_bytes(_with_header(header.encode(), 8))
    assert read_header(file) == {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


def test_fifty_gigabytes_are_not_read(file: Path) -> None:
    write_sparse(file, {"a": ("BF16", (5_000_000, 5000))})
    assert file.stat().st_size > 50 * 10**9
    assert read_header(file)["a"]["shape"] == [5_000_000, 5000]
    assert check_weights(file.parent) == 50 * 10**9
    assert count_tensors(file.parent) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it has 0 bytes"),
        (b"1234567", "it has 7 bytes"),
        (bytes(1000), "not JSON"),
        (b"\xff" * 64, "its header should be"),
        ((2**30).to_bytes(8, "little") + b"{}", "its header should be 1073741824 bytes"),
        (_with_header(b"[]"), "no JSON object"),
        (_with_header(b"{" * 1000), "not JSON"),
        (_with_header(b"[" * 100_000), "not JSON"),
        (_with_header(b'{"a": 3}'), "lacks data offsets"),
        (_with_header(b'{"a": {"dtype": "F32", "shape": [1]}}'), "lacks data offsets"),
        (_described()[:-1], "bytes"),
        (_described(data_offsets=[0, 8, 9]), "lacks data offsets"),
        (_described(data_offsets=[8, 0]), "wrongly"),
        (_described(data_offsets=[-8, 0]), "wrongly"),
        (_described(data_offsets=[0, 10**30]), "wrongly"),
        (_described(data_offsets=["a", "b"]), "wrongly"),
        (_described(shape="ab"), "wrongly"),
        (_described(shape=[True, 2]), "wrongly"),
        (_described(shape=[1e3]), "wrongly"),
        (_described(shape=[2**40] * 40), "wrongly"),
        (_described(dtype=3), "wrongly"),
        (_described(shape=[3]), "a wrong size"),
    ],
)
def test_what_is_wrong_with_a_file(file: Path, content: bytes, words: str) -> None:
    file.write_bytes(content)
    with pytest.raises(BrokenWeightsError, match=words):
        parse_header(file)
    with pytest.raises(BadModelFiles, match=r"model\.safetensors is broken: .*"):
        read_header(file)


def test_a_header_of_a_gigabyte_is_not_read(file: Path) -> None:
    with file.open("wb") as sparse:
        sparse.write((10**9).to_bytes(8, "little") + b"{}")
        sparse.truncate(2 * 10**9)
    with pytest.raises(BrokenWeightsError, match="its header should be 1000000000 bytes"):
        parse_header(file)


def test_a_type_that_is_not_known_yet_is_taken_as_described(file: Path) -> None:
    file.write_bytes(_described(dtype="F4", shape=[16]))
    assert parse_header(file)["a"]["shape"] == [16]


def test_a_pipe_is_no_file_of_weights(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(BrokenWeightsError, match="no regular file"):
        parse_header(file)


def test_names_of_tensors_cannot_move_the_cursor(file: Path) -> None:
    header = json.dumps({"\x1b[2J": {"dtype": 1, "shape": [], "data_offsets": [0, 0]}})
    file.write_bytes(_with_header(header.encode()))
    with pytest.raises(BrokenWeightsError) as caught:
        parse_header(file)
    assert str(caught.value).isprintable()


@given(cut=st.integers(0, len(safetensors(ONE)) - 1))
def test_a_file_cut_anywhere_is_broken(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "cut.safetensors"
    file.write_bytes(safetensors(ONE)[:cut])
    with pytest.raises(BrokenWeightsError):
        parse_header(file)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_TENSOR = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "U32", "F4"]) | _JSON,
        "shape": st.lists(st.integers(-1, 2**50)) | _JSON,
        "data_offsets": st.lists(st.integers(-1, 100), min_size=2, max_size=2) | _JSON,
    }
)


@given(header=st.dictionaries(st.text(), _TENSOR | _JSON, max_size=3))
def test_any_header_is_read_or_broken(
    header: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.safetensors"
    file.write_bytes(_with_header(json.dumps(header).encode(), 100))
    problem = ""
    try:
        assert parse_header(file).keys() == header.keys() - {"__metadata__"}
    except BrokenWeightsError as broken:
        problem = str(broken)
    assert problem.isprintable()


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    one, two = ({name: ("F16", (2, 2)), "b": ("F16", (2,))} for name in ("a", "c"))
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(safetensors(one))
    assert read_headers(tmp_path).keys() == {"a", "b"}
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(safetensors(two))
    with pytest.raises(BadModelFiles, match="holds b, which another file of the model holds"):
        read_headers(tmp_path)
