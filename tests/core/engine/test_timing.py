"""An answer tells when it passed the engine's stations."""

from __future__ import annotations

import time

from core.engine.events import Finished
from core.engine.request import GenerationRequest, TextPrompt
from tests.core.engine.conftest import OpenEngine


def test_the_stations_come_in_their_order(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    before = time.perf_counter()
    request = GenerationRequest(prompt=TextPrompt(text="abc"), max_tokens=3)
    finished = list(engine.submit(request))[-1]
    assert isinstance(finished, Finished)
    timing = finished.usage.timing
    assert timing is not None
    assert before <= timing.queued <= timing.admitted
    assert timing.lookup_seconds is not None
    assert timing.lookup_seconds >= 0
    assert timing.admitted + timing.lookup_seconds <= timing.first_token <= time.perf_counter()
