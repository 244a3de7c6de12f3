"""As many threads as others leave cores."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from core.machine.blas import restore_names, thread_setter
from core.machine.threads import ThreadKeeper, busy_seconds

linux = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc elsewhere")


class Machine:
    """Four cores, of which others and we use some."""

    def __init__(self) -> None:
        self.now = self.busy = self.own = 0.0
        self.told: list[int] = []
        self.keeper = ThreadKeeper(
            self.told.append,
            cores=frozenset(range(4)),
            read_busy=lambda cores: self.busy,
            own_seconds=lambda: self.own,
            clock=lambda: self.now,
        )

    def run(self, seconds: float, *, ours: float, others: float) -> int:
        self.now += seconds
        self.own += seconds * ours
        self.busy += seconds * (ours + others)
        if (count := self.keeper.wanted()) is not None:
            self.keeper.apply(count)
        return self.keeper.count


@pytest.mark.parametrize(
    ("others", "count"), [(0, 4), (0.2, 4), (0.5, 3), (1, 3), (2.1, 2), (3.5, 1), (4, 1)]
)
def test_threads_follow_the_cores_that_others_leave(others: float, count: int) -> None:
    assert Machine().run(1, ours=min(4, 4 - others), others=others) == count


def test_they_come_back_when_the_others_are_gone() -> None:
    machine = Machine()
    assert machine.run(1, ours=1, others=3) == 1
    assert machine.run(1, ours=1, others=0) == 4
    assert machine.told == [1, 4]


def test_it_does_not_look_at_every_step() -> None:
    machine = Machine()
    assert machine.run(0.1, ours=0, others=4) == 4
    assert machine.run(0.5, ours=0, others=4) == 1


def test_what_others_did_while_we_rested_does_not_count() -> None:
    machine = Machine()
    assert machine.run(60, ours=0, others=4) == 4
    assert machine.run(1, ours=4, others=0) == 4


def test_reading_errors_of_the_clock_do_not_count_as_more_cores() -> None:
    assert Machine().run(1, ours=4.3, others=-0.3) == 4


@linux
def test_busy_seconds_grow_with_work() -> None:
    import os

    cores = frozenset(os.sched_getaffinity(0))
    before = busy_seconds(cores)
    total = 0
    while busy_seconds(cores) - before < 0.05:
        total += sum(range(20_000))
    assert busy_seconds(cores) > before
    assert busy_seconds(frozenset()) == 0


@linux
def test_the_library_that_pip_brings_can_be_told(tmp_path: Path) -> None:
    library = restore_names(tmp_path)
    assert library is not None
    setter = thread_setter(str(library))
    assert setter is not None
    setter(1)
    assert thread_setter("libc.so.6") is None
