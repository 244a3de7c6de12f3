"""What is alive at once, by MLX's rules of allocation."""

from __future__ import annotations

from core.fit.tape import CPU_LEAD, GPU_LEAD, Lead, Tape

# Tasks of one dispatch each: an array is free again eleven operations after its last reader.
SLOW = Lead(dispatches_per_task=2)
FAR = Lead(dispatches_per_task=10**6)


def chain(length: int, *, overwrites: bool = False, dispatches: int = 1) -> Tape:
    tape = Tape()
    array = tape.op(100)
    for _ in range(length - 1):
        array = tape.op(100, array, overwrites=overwrites, dispatches=dispatches)
    return tape


def test_arrays_of_one_task_are_alive_together() -> None:
    assert chain(5).peak_bytes(FAR) == 500


def test_arrays_are_freed_as_far_behind_as_the_threads_are_apart() -> None:
    # An operation and the freeing of its inputs are two dispatches: one task each. The twelfth
    # task still sees the first array, the next ones no longer.
    assert chain(100).peak_bytes(SLOW) == chain(50).peak_bytes(SLOW) < 15 * 100


def test_an_operation_writes_over_what_nobody_else_reads() -> None:
    assert chain(50, overwrites=True).peak_bytes(FAR) == 100


def test_what_has_two_readers_is_not_written_over() -> None:
    tape = Tape()
    array = tape.op(100)
    left = tape.op(100, array, overwrites=True)
    tape.op(100, array, left, overwrites=True)
    assert tape.peak_bytes(FAR) == 200


def test_another_size_is_not_written_over() -> None:
    tape = Tape()
    tape.op(60, tape.op(100), overwrites=True)
    assert tape.peak_bytes(FAR) == 160


def test_kept_arrays_stay() -> None:
    tape = Tape()
    tape.keep(tape.op(1000))
    for _ in range(100):
        tape.op(1)
    assert tape.kept_bytes() == 1000
    # The peak at the end holds it still.
    tape.op(500)
    assert tape.peak_bytes(SLOW) >= 1500


def test_given_arrays_count_until_they_were_read() -> None:
    tape = Tape()
    old = tape.given(1000)
    tape.op(10, old)
    for _ in range(100):
        tape.op(1)
    tape.op(900)
    assert tape.peak_bytes(SLOW) < 1000 + 50


def test_a_gpu_closes_its_buffers_by_megabytes() -> None:
    tape = Tape()
    array = tape.op(40 * 2**20)
    for _ in range(40):
        array = tape.op(40 * 2**20, array)
    # Every buffer holds one of these operations: 12 of them are alive, not all 41.
    assert tape.peak_bytes(GPU_LEAD) <= 14 * 40 * 2**20
    assert tape.peak_bytes(CPU_LEAD) == 41 * 40 * 2**20
