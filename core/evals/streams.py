"""A model as a stream of logits, of which no more than a chunk is in memory.

Everything is computed in float32, whatever the files hold: unpacked weights are exactly those of
the packed ones, and what is compared is the weights rather than a device's rounding. A model of
more than a billion parameters, or one that does not fit in memory in float32, is computed layer by
layer (`core.engine.blocks`): the hidden states of all rows pass one layer, whose weights are then
released. The others are computed as a whole. Both give the same numbers.

`T` tokens, `D` hidden size, `V` vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx_lm.utils import get_total_parameters

from core.engine.blocks import Blocks, NotARowError, States
from core.engine.loader import unpack_weights
from core.engine.split import Head, row_of, split_model
from core.evals.subjects import Size, Subject, size_of
from core.progress import OnProgress, Progress, ignore_progress

if TYPE_CHECKING:
    from core.machine.threads import ThreadKeeper

LARGE = 10**9
"""Parameters above which a model is computed layer by layer."""
_UNPACKED_SHARE = 0.6  # of the budget for float32 weights; the rest is for activations
_TRIED = 2  # layers that are computed twice, to see whether they are a row


class StoppedError(Exception):
    """The caller wanted the measurement to end."""


@dataclass(frozen=True, kw_only=True)
class How:
    """How models are computed."""

    budget_bytes: int
    """Memory for weights and hidden states."""
    layered: bool | None = None
    """Layer by layer; None: where the model is large."""
    threads: ThreadKeeper | None = None
    """Keeps the BLAS from fighting for cores; None where it does not apply."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Who hears of a measurement, and can end it."""

    on_progress: OnProgress = ignore_progress
    """Hears how far it is."""
    on_note: Callable[[str], None] = lambda _line: None
    """Hears a sentence that is worth knowing."""
    should_stop: Callable[[], bool] = lambda: False
    """Called often; True ends the measurement with `StoppedError`."""

    def step(self) -> None:
        """End here where that is wanted.

        Raises:
            StoppedError: it is.
        """
        if self.should_stop():
            raise StoppedError


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What is left of a model after its layers: hidden states of every row, and the head."""

    hidden: Callable[[int], mx.array]
    """The number of a row to what the head takes, [T, D]."""
    head: Head
    """Hidden states to logits [T, V]."""
    vocabulary: int
    """`V`."""
    size: Size
    """How large the model is."""
    way: str
    """How it was computed, for people."""


def open_stream(subject: Subject, rows: Sequence[mx.array], how: How, watch: Watch) -> Stream:
    """Compute the hidden states of all rows.

    Args:
        subject: the model.
        rows: tokens [T] each.
        how: how to compute.
        watch: who hears of it.

    Raises:
        MlxbunError: the model cannot be opened.
        StoppedError: the caller wanted an end.
    """
    model = subject.open()
    size, parameters = size_of(model), int(get_total_parameters(model))
    fits = 4 * parameters <= _UNPACKED_SHARE * how.budget_bytes
    layered = how.layered if how.layered is not None else parameters > LARGE or not fits
    work = _Work(subject=subject, rows=rows, how=how, watch=watch, size=size)
    if layered:
        unpack_weights(model)  # lazily: each layer when it is computed
        try:
            return work.layered(model)
        except NotARowError as reason:
            watch.on_note(f"{subject.name} is computed as a whole: {reason}.")
        model = subject.open()
    return work.whole(model, fits=fits)


@dataclass(frozen=True, kw_only=True)
class _Work:
    """One model that passes over all rows."""

    subject: Subject
    rows: Sequence[mx.array]
    how: How
    watch: Watch
    size: Size

    def layered(self, model: Any) -> Stream:
        """Return the stream of a model of which one layer at a time is in memory."""
        blocks = Blocks(model, tried=min(_TRIED, _layers(model)))
        states = [blocks.begin(row[None]) for row in self.rows]
        mx.eval([each.hidden for each in states])
        for index in range(len(blocks.layers)):
            states = [self._through(blocks, index, each) for each in states]
            blocks.release(index)
            mx.clear_cache()
            self._report(index + 1, len(blocks.layers), "layers")
        return Stream(
            hidden=lambda row: blocks.finish(states[row])[0],
            head=blocks.head,
            vocabulary=blocks.vocabulary,
            size=self.size,
            way="float32, layer by layer",
        )

    def whole(self, model: Any, *, fits: bool) -> Stream:
        """Return the stream of a model that is in memory as a whole."""
        packed = any(hasattr(module, "scales") for module in model.modules())
        if fits:
            unpack_weights(model)
        elif packed:
            model.set_dtype(mx.float32)
        else:
            self.watch.on_note(f"{self.subject.name} does not fit in float32: it keeps its type.")
        split = split_model(model)
        way = "float32" if fits else "float32, packed weights" if packed else "its own type"
        hidden = self._kept(split.body) if split.known else self._again(split.body)
        return Stream(
            hidden=hidden, head=split.head, vocabulary=split.vocabulary, size=self.size, way=way
        )

    def _kept(self, body: Callable[..., mx.array]) -> Callable[[int], mx.array]:
        """Return the hidden states of all rows; the layers are needed no more."""
        kept = [self._row(body, index) for index in range(len(self.rows))]
        return lambda row: kept[row]

    def _again(self, body: Callable[..., mx.array]) -> Callable[[int], mx.array]:
        """Return the logits of a row computed when they are needed: all of them are too many."""
        self.watch.on_note(f"{self.subject.name}: the head is not known apart from the layers.")
        return lambda row: self._row(body, row)

    def _row(self, body: Callable[..., mx.array], index: int) -> mx.array:
        self._follow_cores()
        hidden = body(self.rows[index][None])[0]
        mx.eval(hidden)
        self._report(index + 1, len(self.rows), "sequences")
        return hidden

    def _through(self, blocks: Blocks, index: int, states: States) -> States:
        self.watch.step()
        self._follow_cores()
        after = blocks.through(index, states)
        mx.eval(after.hidden)
        return after

    def _report(self, done: int, total: int, unit: str) -> None:
        self.watch.step()
        task = f"measuring {self.subject.name}"
        self.watch.on_progress(Progress(task=task, done=done, total=total, unit=unit))

    def _follow_cores(self) -> None:
        """Use as many threads as others leave cores; nothing is being computed."""
        threads = self.how.threads
        if threads and (count := threads.wanted(stale=math.inf)):
            threads.apply(count)


def _layers(model: Any) -> int:
    return len(row_of(model))
