"""The memory that a chain of array operations needs, found by replaying how MLX allocates.

MLX allocates an operation's output when the operation is dispatched, frees its inputs when it has
run, and lets an elementwise operation write over an input that nobody else reads. The thread that
dispatches runs ahead of the one that computes, so what is alive is not one operation's arrays but
all those of the operations between the two. On a CPU the lead is bounded by a number of tasks: a
task is ten dispatches, and eleven may be open. On a GPU a task is a command buffer, which is closed
after a number of operations or of megabytes.

Sources: mlx/transforms.cpp (`MAX_ACTIVE_TASKS` 10), mlx/backend/cpu/encoder.h
(`DISPATCHES_PER_TASK` 10), mlx/backend/cpu/eval.cpp, mlx/backend/metal/device.cpp
(`max_ops_per_buffer`, `max_mb_per_buffer`), mlx 0.32.

Letters: an array is named by the number that the tape gave it.
"""

from __future__ import annotations

from dataclasses import dataclass

_TASKS_AHEAD = 11


@dataclass(frozen=True, kw_only=True)
class Lead:
    """How far the dispatching thread may run ahead of the computing one."""

    dispatches_per_task: int
    """Dispatches that close a task."""
    bytes_per_task: int | None = None
    """Bytes of inputs and outputs that close a task, too; None: any number."""


# mlx-cpu; and what Metal takes for the chips of a Mac mini or MacBook ("g" and "s" devices).
CPU_LEAD = Lead(dispatches_per_task=10)
GPU_LEAD = Lead(dispatches_per_task=50, bytes_per_task=50 * 2**20)


@dataclass(frozen=True, kw_only=True)
class _Op:
    out: int
    nbytes: int
    reads: tuple[int, ...]
    dispatches: int
    overwrites: bool
    weights: int


class Tape:
    """Operations in the order they are dispatched."""

    def __init__(self) -> None:
        self._ops: list[_Op] = []
        self._given: dict[int, int] = {}  # arrays from before: their bytes
        self._kept: set[int] = set()
        self._next = 0

    def given(self, nbytes: float) -> int:
        """Add an array that is there before the first operation; it goes after its last reader."""
        name = self._name()
        self._given[name] = int(nbytes)
        return name

    def op(
        self,
        nbytes: float,
        *reads: int,
        dispatches: int = 1,
        overwrites: bool = False,
        weights: float = 0,
    ) -> int:
        """Add an operation and return the array that it makes.

        Args:
            nbytes: bytes of its output; 0: it makes none that counts.
            reads: arrays that it reads.
            dispatches: kernels and views that it stands for; freeing its inputs is one more.
            overwrites: whether it may write over an input of the same size that it alone reads.
            weights: bytes of the model's weights that it reads.
        """
        name = self._name()
        self._ops.append(
            _Op(
                out=name,
                nbytes=int(nbytes),
                reads=reads,
                dispatches=dispatches,
                overwrites=overwrites,
                weights=int(weights),
            )
        )
        return name

    def keep(self, array: int) -> None:
        """Let an array live on after the last operation."""
        self._kept.add(array)

    def peak_bytes(self, lead: Lead) -> int:
        """Return the most bytes that are alive at once, kept and given arrays included."""
        return _Replay(self._ops, self._given, self._kept, lead).peak()

    def kept_bytes(self) -> int:
        """Return the bytes of the arrays that live on."""
        sizes = {op.out: op.nbytes for op in self._ops}
        return sum(sizes.get(name, 0) for name in self._kept)

    def _name(self) -> int:
        self._next += 1
        return self._next - 1


class _Replay:
    """One pass over the operations: which buffer lives from which task to which."""

    def __init__(self, ops: list[_Op], given: dict[int, int], kept: set[int], lead: Lead) -> None:
        self._ops = ops
        self._given = given
        self._lead = lead
        self._readers = _count_readers(ops)
        self._buffer = {name: name for name in given}  # array: the buffer it lies in
        self._size = dict(given)
        self._born = dict.fromkeys(given, 0)
        self._dies: dict[int, int] = {}
        self._kept = kept

    def peak(self) -> int:
        task = filled = carried = 0
        for op in self._ops:
            self._place(op, task)
            filled += op.dispatches + 1
            carried += op.nbytes + op.weights + sum(self._bytes_of(read) for read in op.reads)
            limit = self._lead.bytes_per_task
            while filled >= self._lead.dispatches_per_task:
                task, filled, carried = task + 1, filled - self._lead.dispatches_per_task, 0
            if limit is not None and carried > limit:
                task, filled, carried = task + 1, 0, 0
            for read in op.reads:
                if (buffer := self._buffer.get(read)) is not None:
                    self._dies[buffer] = task
        return self._most_alive()

    def _place(self, op: _Op, task: int) -> None:
        """Give an operation's output a buffer: an input's, or a new one."""
        if op.overwrites:
            for read in op.reads:
                buffer = self._buffer.get(read)
                if (
                    buffer is not None
                    and self._readers.get(read, 0) == 1
                    and self._size[buffer] == op.nbytes
                ):
                    self._buffer[op.out] = buffer
                    return
        self._buffer[op.out] = op.out
        self._size[op.out] = op.nbytes
        self._born[op.out] = task

    def _bytes_of(self, array: int) -> int:
        buffer = self._buffer.get(array)
        return self._size[buffer] if buffer is not None else 0

    def _most_alive(self) -> int:
        kept = {self._buffer[array] for array in self._kept if array in self._buffer}
        steps: dict[int, int] = {}
        for buffer, size in self._size.items():
            born = self._born[buffer]
            steps[born] = steps.get(born, 0) + size
            if buffer not in kept:
                # Its memory comes back when the task that last read it has run, which the
                # dispatching thread sees with its lead.
                gone = self._dies.get(buffer, born) + _TASKS_AHEAD
                steps[gone] = steps.get(gone, 0) - size
        alive = most = 0
        last = max(self._born.values(), default=0)
        for task in sorted(steps):
            alive += steps[task]
            if task <= last:
                most = max(most, alive)
        return most


def _count_readers(ops: list[_Op]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for op in ops:
        for read in op.reads:
            counts[read] = counts.get(read, 0) + 1
    return counts
