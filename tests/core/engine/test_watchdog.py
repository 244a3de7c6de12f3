"""Who is busy and silent for too long is noticed; who is idle is left alone."""

from __future__ import annotations

import threading

from core.engine.watchdog import Stall, Watchdog


def test_silence_counts_only_while_there_is_work() -> None:
    stall = Stall()
    assert stall.seconds(busy=False, beat=1, now=0) == 0
    assert stall.seconds(busy=False, beat=1, now=1000) == 0
    assert stall.seconds(busy=True, beat=1, now=1001) == 1
    assert stall.seconds(busy=True, beat=1, now=1010) == 10
    assert stall.seconds(busy=True, beat=2, now=1020) == 0


def test_trouble_is_told_once() -> None:
    told: list[str] = []
    heard = threading.Event()

    def tell(trouble: str) -> None:
        told.append(trouble)
        heard.set()

    looks = iter([None, None, "it burns", "it burns"])
    Watchdog(lambda: next(looks), tell, interval=0.01)
    assert heard.wait(5)
    assert told == ["it burns"]
    assert next(looks) == "it burns"


def test_a_stopped_watchdog_tells_nothing() -> None:
    told: list[str] = []
    watchdog = Watchdog(lambda: "it burns", told.append, interval=0.2)
    watchdog.stop()
    assert not threading.Event().wait(0.4)
    assert told == []
