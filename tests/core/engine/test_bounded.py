"""Foreign code that does not return is stopped."""

from __future__ import annotations

import threading

import pytest

from core.engine.bounded import OutOfTimeError, within


def test_a_call_gives_what_it_gives() -> None:
    assert within(60, lambda: 3) == 3


def test_what_it_raises_comes_to_the_caller() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        within(60, fail)


def test_an_endless_loop_is_stopped() -> None:
    threads: list[threading.Thread] = []

    def loop() -> None:
        threads.append(threading.current_thread())
        while True:
            pass

    with pytest.raises(OutOfTimeError, match=r"within 0\.1 seconds"):
        within(0.1, loop)
    threads[0].join(60)
    assert not threads[0].is_alive()
