"""An answer tells when it passed the engine's stations."""

from __future__ import annotations

import time

import pytest

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
    assert timing.placement is not None
    assert timing.placement.began <= timing.queued
    assert timing.setup is not None
    assert timing.admitted <= timing.setup.began
    assert sum(chunk.tokens or 0 for chunk in timing.chunks) == finished.usage.prompt_tokens - 1
    assert timing.prompt_done is not None
    assert timing.chunks[-1].began + timing.chunks[-1].seconds <= timing.prompt_done
    assert timing.prompt_done < timing.first_token
    assert timing.kept == ()
    assert timing.shares is not None
    assert timing.shares.forward + timing.shares.head + timing.shares.sample == pytest.approx(1)
    assert min(timing.shares.forward, timing.shares.head, timing.shares.sample) > 0
    assert timing.lookup_seconds >= 0
    assert timing.admitted + timing.lookup_seconds <= timing.first_token <= time.perf_counter()
