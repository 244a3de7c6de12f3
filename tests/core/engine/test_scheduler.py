"""Who waits and who runs."""

from __future__ import annotations

import pytest

from core.engine.generation import Generation
from core.engine.output import OutputPipeline
from core.engine.request import SamplingParams
from core.engine.scheduler import Row, Scheduler, prefill_chunk
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
    rows = [make_row() for _ in range(5)]
    for row in rows:
        scheduler.enqueue(row)
    assert scheduler.admit(running=1) == rows[:2]
    assert scheduler.admit(running=3) == []
    assert scheduler.admit(running=0) == rows[2:]


def test_the_queue_refuses_when_full() -> None:
    scheduler = Scheduler(cap=1, queue_limit=2)
    scheduler.enqueue(make_row())
    scheduler.enqueue(make_row())
    with pytest.raises(QueueFull, match="2 requests are waiting"):
        scheduler.enqueue(make_row())


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
    assert prefill_chunk(1000, 512) == 16
