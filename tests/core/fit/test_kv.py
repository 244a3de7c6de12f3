"""Bytes by layer kind, and what fits beside what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.fit.admission import Admission, transient_bytes
from core.fit.kv import KvShape, LayerKv

FULL = LayerKv(bytes_per_token=100)
SLIDING = LayerKv(bytes_per_token=100, window=512)
STATE = LayerKv(constant_bytes=5000)


def test_each_kind_grows_in_its_own_way() -> None:
    assert [FULL.bytes(n) for n in (0, 256, 1024)] == [0, 25_600, 102_400]
    assert [SLIDING.bytes(n) for n in (256, 1024)] == [25_600, 51_200]
    assert [STATE.bytes(n) for n in (0, 1024)] == [5000, 5000]


def test_rows_grow_in_steps_and_batches_are_padded() -> None:
    shape = KvShape(layers=(FULL, SLIDING, STATE))
    assert shape.row_bytes(1) == shape.row_bytes(256) == 56_200
    assert shape.row_bytes(257) == 107_400
    assert shape.batch_bytes([10, 10, 1000]) == 3 * shape.row_bytes(1000)
    assert shape.batch_bytes([]) == 0


@given(st.integers(0, 10**7), st.integers(1, 10**5))
def test_the_longest_row_fits_and_a_longer_one_does_not(budget: int, limit: int) -> None:
    shape = KvShape(layers=(FULL, STATE))
    longest = shape.longest(budget, limit)
    assert 0 <= longest <= limit
    assert longest == 0 or shape.row_bytes(longest) <= budget
    assert longest == limit or shape.row_bytes(longest + 1) > budget


def admission(room: int) -> Admission:
    return Admission(kv=KvShape(layers=(FULL,)), room_bytes=room, context_window=4096)


def test_a_row_alone_may_always_start() -> None:
    assert admission(0).fits((4000, 96), [])


@pytest.mark.parametrize(("room", "fits"), [(2 * 2 * 102_400, True), (2 * 2 * 102_400 - 1, False)])
def test_a_row_starts_when_all_fit_with_what_is_sure_to_come(room: int, fits: bool) -> None:
    # The longer has 512 tokens and is sure of 512 more: two rows of 1,024, for a moment twice.
    assert admission(room).fits((100, 50), [(512, 100_000)]) is fits


def test_what_is_sure_to_come_ends_with_the_context() -> None:
    assert admission(2 * 2 * 409_600).fits((4000, 10**6), [(4000, 10**6)])


def test_transients_grow_with_chunk_and_rows() -> None:
    small = transient_bytes(prefill_tokens=16, rows=1, hidden=64, vocabulary=259)
    assert small == 4 * (8 * 16 * 4 * 64 + 2 * 259)
    assert transient_bytes(prefill_tokens=32, rows=2, hidden=64, vocabulary=259) == 2 * small
