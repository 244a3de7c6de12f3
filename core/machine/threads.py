"""As many BLAS threads as there are free cores, while others use some of them.

OpenBLAS splits each product over its threads and spins until the last is done. A thread whose core
is taken by somebody else makes all of them wait for a time slice, hundreds of times a token:
measured with one of two cores taken, SmolLM2-135M, 4 rows, a step took 2.9 s with two threads and
0.09 s with one. So the number follows the cores that others leave. Linux only, like the BLAS that
`core.machine.blas` loads; knows nothing of MLX.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_STAT = Path("/proc/stat")
_SECONDS_BETWEEN = 0.5
_SECONDS_STALE = 2.0
# A core that others use for less than this part still counts as free.
_TOLERATED = 0.3


class ThreadKeeper:
    """Says when the number of threads should change.

    Attributes:
        count: the number in use.
    """

    def __init__(
        self,
        set_threads: Callable[[int], None],
        *,
        cores: frozenset[int],
        read_busy: Callable[[frozenset[int]], float] | None = None,
        own_seconds: Callable[[], float] = time.process_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take what to watch.

        Args:
            set_threads: tells the BLAS.
            cores: numbers of the cores that this process may use.
            read_busy: returns the seconds for which these cores were busy so far.
            own_seconds: returns the seconds of them that were ours.
            clock: a clock in seconds.
        """
        self.count = len(cores)
        self._set_threads = set_threads
        self._cores = cores
        self._read_busy = read_busy or busy_seconds
        self._own_seconds = own_seconds
        self._clock = clock
        self._last = self._sample()

    def wanted(self, *, stale: float = _SECONDS_STALE) -> int | None:
        """Return the number of threads to change to, or None: as it is, or too soon to say.

        Args:
            stale: seconds since the last call after which it counts as a rest, of which nothing
                follows for now; who was busy all the time says infinity.
        """
        if self._clock() - self._last[0] < _SECONDS_BETWEEN:
            return None
        (then, busy_then, own_then), self._last = self._last, self._sample()
        now, busy, own = self._last
        if now - then > stale:
            return None  # we rested meanwhile: that others worked then says nothing of now
        others = (busy - busy_then - (own - own_then)) / (now - then)
        free = len(self._cores) - max(0.0, others)
        count = max(1, min(len(self._cores), int(free + _TOLERATED)))
        return count if count != self.count else None

    def apply(self, count: int) -> None:
        """Change the number. No product may run meanwhile: OpenBLAS frees its buffers."""
        self._set_threads(count)
        self.count = count

    def _sample(self) -> tuple[float, float, float]:
        return self._clock(), self._read_busy(self._cores), self._own_seconds()


def busy_seconds(cores: frozenset[int]) -> float:
    """Return the seconds for which the given cores were busy since the machine started.

    Source: proc(5), /proc/stat: `cpuN user nice system idle iowait irq softirq steal …` in ticks.
    """
    ticks = 0
    for line in _STAT.read_text(encoding="ascii").splitlines():
        name, *numbers = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, numbers[:8])
            ticks += user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")
