"""Several prompts of one request: queued all or none, each answered as if it came alone."""

from __future__ import annotations

import pytest

from core.engine.request import GenerationRequest
from core.errors import ContextTooLong, QueueFull
from tests.core.engine.conftest import OpenEngine
from tests.core.engine.test_choices import held, settled
from tests.core.engine.test_engine import answer, finish, request

TEXTS = ["a", "another prompt", "x" * 90, "é☕"]


def _requests(count: int, **fields: object) -> list[GenerationRequest]:
    return [request(f"prompt {n}", **fields) for n in range(count)]


@pytest.mark.parametrize("batch", [1, 3])
def test_each_prompt_is_answered_as_if_alone(open_tiny: OpenEngine, batch: int) -> None:
    engine = open_tiny(batch=batch)
    alone = [answer(engine, text, max_tokens=12)[0] for text in TEXTS]
    asked = [request(text, max_tokens=12, choices=2) for text in TEXTS]
    together = [finish(each)[0] for each in engine.submit_together(asked)]
    assert together == [text for text in alone for _ in range(2)]
    settled(engine)


def test_an_idle_engine_takes_any_number(open_tiny: OpenEngine) -> None:
    engine = open_tiny(batch=2)
    release = held(engine)
    generations = engine.submit_together(_requests(128, max_tokens=1))
    with pytest.raises(QueueFull):
        engine.submit(request())
    release.set()
    assert all(finish(each)[1].usage.completion_tokens == 1 for each in generations)
    settled(engine)


def test_all_are_taken_or_none(open_tiny: OpenEngine) -> None:
    engine = open_tiny(batch=1)
    release = held(engine)
    first = engine.submit(request(max_tokens=1))
    with pytest.raises(QueueFull):
        engine.submit_together(_requests(65, max_tokens=1))
    assert engine.stats().waiting_rows == 1
    release.set()
    finish(first)
    with pytest.raises(ContextTooLong):
        engine.submit_together([*_requests(3), request("x" * 600)])
    settled(engine)
    assert engine.stats().submitted_rows == 1


def test_cancelling_frees_every_row(open_tiny: OpenEngine) -> None:
    engine = open_tiny(batch=3)
    generations = engine.submit_together(_requests(20, max_tokens=300))
    next(iter(generations[0]))
    for each in generations:
        each.cancel()
    settled(engine)
    stats = engine.stats()
    assert stats.cancelled_rows + stats.finished_rows == 20
