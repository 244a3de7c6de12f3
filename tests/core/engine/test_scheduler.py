"""Who waits and who runs."""

from __future__ import annotations

import pytest

from core.engine.generation import Generation
from core.engine.output import OutputPipeline
from core.engine.request import SamplingParams
from core.engine.scheduler import Row, Scheduler, cut, prefill_chunk
from core.errors import QueueFull


def make_row() -> Row:
    return Row(
        generation=Generation(prompt_tokens=1),
        prompt=[1],
        sampling=SamplingParams(),
        max_tokens=1,
        output=OutputPipeline(decode=lambda tokens: "", stops=()),
    )


def test_rows_are_admitted_in_order_up_to_the_cap() -> None:
    scheduler = Scheduler(cap=3)
    rows = [make_row() for _ in range(3)]
    for row in rows:
        scheduler.enqueue(row)
    assert scheduler.admit(2, lambda row: True) is rows[0]
    assert scheduler.admit(3, lambda row: True) is None
    assert scheduler.admit(0, lambda row: True) is rows[1]


def test_a_first_row_that_does_not_fit_is_not_passed() -> None:
    scheduler = Scheduler(cap=3)
    large, small = make_row(), make_row()
    scheduler.enqueue(large)
    scheduler.enqueue(small)
    assert scheduler.admit(1, lambda row: row is small) is None
    assert scheduler.admit(0, lambda row: True) is large


def test_cuts_fall_on_the_boundaries_that_are_left() -> None:
    assert cut([1, 2, 3, 4, 5], 0, (2, 4)) == [[1, 2], [3, 4], [5]]
    assert cut([1, 2, 3, 4, 5], 2, (2, 4)) == [[3, 4], [5]]
    assert cut([1, 2, 3, 4, 5], 3, (2, 5)) == [[4, 5]]


def test_the_queue_refuses_when_full() -> None:
    scheduler = Scheduler(cap=1, queue_limit=2)
    scheduler.enqueue(make_row(), running=1)
    scheduler.enqueue(make_row(), running=1)
    with pytest.raises(QueueFull, match="2 requests are waiting"):
        scheduler.enqueue(make_row(), running=1)


def test_cancelled_rows_leave_the_queue() -> None:
    scheduler = Scheduler(cap=1)
    stays, goes = make_row(), make_row()
    scheduler.enqueue(goes)
    scheduler.enqueue(stays)
    goes.generation.cancel()
    assert scheduler.drop_cancelled() == [goes]
    assert list(scheduler.waiting) == [stays]


def test_a_step_prefills_a_bounded_number_of_tokens() -> None:
    assert prefill_chunk(0, 512) == prefill_chunk(1, 512) == 512
    assert prefill_chunk(8, 512) == 64
    assert prefill_chunk(1000, 512) == 1
