"""Splitting a JSON array without holding it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.memory.sources.json_array import ArraySplitter, read_array
from core.memory.sources.raw import ReadLog

_TEXT = st.text(st.sampled_from('ab"\\{}[],:ü\n'), max_size=6)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=12,
)


def _read(data: bytes, *, piece: int = 7, most: int = 2**20) -> tuple[list[Any], ReadLog]:
    log = ReadLog()
    pieces = (data[at : at + piece] for at in range(0, len(data), piece))
    return list(read_array(pieces, log, most=most)), log


@given(st.lists(_JSON, max_size=5), st.integers(1, 40), st.booleans())
def test_objects_are_those_that_json_finds(array: list[Any], piece: int, ascii_only: bool) -> None:
    data = json.dumps(array, ensure_ascii=ascii_only).encode()
    found, log = _read(data, piece=piece)
    assert found == [each for each in array if isinstance(each, dict) and each]
    assert (log.broken, log.skipped) == (0, {})


@given(st.binary(max_size=60), st.integers(1, 9))
def test_anything_may_come(data: bytes, piece: int) -> None:
    found, _ = _read(b"[" + data, piece=piece)
    assert all(isinstance(each, dict) for each in found)


def test_one_object_is_read_as_that() -> None:
    assert _read(b'\xef\xbb\xbf  {"a": [{"b": 1}]}')[0] == [{"a": [{"b": 1}]}]


def test_a_broken_object_costs_only_itself() -> None:
    found, log = _read(b'[{"a": 1}, {"a": nope}, {"a": 3}]')
    assert (found, log.broken) == ([{"a": 1}, {"a": 3}], 1)


def test_an_array_that_is_cut_gives_what_is_whole() -> None:
    found, log = _read(b'[{"a": 1}, {"a": "2')
    assert found == [{"a": 1}]
    assert list(log.skipped) == ["the rest of a file that is cut short or is not JSON"]


def test_a_large_object_is_left_out_and_never_held() -> None:
    splitter = ArraySplitter(most=1000)
    found = list(splitter.feed(b'[{"a": "'))
    for _ in range(1000):
        found += splitter.feed(b"x" * 1000)
        assert splitter.held <= 1000
    found += splitter.feed(b'"}, {"b": 2}]')
    assert (found, splitter.oversized, splitter.complete) == ([b'{"b": 2}'], 1, True)


def test_depth_is_only_a_number() -> None:
    deep = b"[" * 10**6
    found, log = _read(b'[{"a": ' + deep + b"]" * 10**6 + b'}, {"b": 2}]', piece=2**16, most=2**22)
    assert (found, log.broken) == ([{"b": 2}], 1)


@pytest.mark.parametrize("data", [b"", b"null", b"17", b'"text"', b"\xff\xfe[\x00"])
def test_what_is_no_array_is_nothing(data: bytes) -> None:
    found, log = _read(data)
    assert found == []
    assert sum(log.skipped.values()) == 1
