"""What a training looks like: a live display for a person, lines for a log, NDJSON for programs."""

from __future__ import annotations

import itertools
import math
import time
from contextlib import contextmanager
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Any

from core.train.events import Metric, Note, Saved, Stage
from core.units import format_bytes, format_number, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from commands._shared.console import Console
    from core.train.config import TrainConfig
    from core.train.events import Before, OnEvent, TrainEvent, TrainResult

_LINE_SECONDS = 2.0  # between two lines of a log
_BAR = 24
_SPARKS = "▁▂▃▄▅▆▇█"
_CURVE = 40  # columns of the curve


@contextmanager
def shown_events(console: Console) -> Iterator[OnEvent]:
    """Yield what shows the events of the training in the block."""
    if console.json_mode:
        yield lambda event: console.event(event_line(event))
        return
    with console.live() as draw:
        yield _Display(console, draw) if draw else _Lines(console)


def event_line(event: TrainEvent) -> dict[str, Any]:
    """Return an event as a line of NDJSON."""
    values = {name: value for name, value in asdict(event).items() if value is not None}
    return {"event": type(event).__name__.lower(), **values}


def show_result(result: TrainResult, config: TrainConfig, console: Console) -> None:
    """Tell what a training came to, and what to do with it."""
    if console.json_mode:
        console.event({"event": "done", **asdict(result)})
        return
    if not result.adapter_step:
        console.note("stopped before the first step: there is nothing to keep")
        return
    ends = {"done": "finished", "early": "ended early", "stopped": "stopped"}
    console.note(f"{ends[result.ended]} at step {result.step} in {format_seconds(result.seconds)}")
    rows = [
        {"what": what, "before": number(before), "after": number(after)}
        for what, before, after in _compared(result.before, result.after)
    ]
    headings = {"what": f"ON THE {result.measured_on.upper()} ROWS", "before": "BEFORE"}
    console.table(rows, headings | {"after": f"AFTER STEP {result.adapter_step}"})
    console.note(f"adapter: {result.adapter_path}")
    if result.ended == "stopped":
        console.note(
            "Go on with the same command and --resume --adapter-path " + quote(result.adapter_path)
        )
    else:
        model, adapter = quote(str(config.model_dir)), quote(result.adapter_path)
        console.note(f"next: mlxbun serve {model} --adapter {adapter}")


def number(value: float | None) -> str:
    """Return a figure with three digits."""
    return "-" if value is None else format_number(value)


def plain_line(metric: Metric) -> str:
    """Return a metric as one line of a log."""
    if metric.kind == "val":
        told = (f"perplexity {number(metric.perplexity)}", *_preference(metric))
        return f"step {metric.step}: measured loss {metric.loss:.4g}, {', '.join(told)}"
    return ", ".join(
        (
            f"step {metric.step} of {metric.steps}: loss {metric.loss:.4g}",
            *_figures(metric),
        )
    )


def _figures(metric: Metric) -> Iterator[str]:
    yield from _preference(metric)
    if metric.tokens_per_sec is not None:
        yield f"{format_number(metric.tokens_per_sec)} tokens/s"
    if metric.memory_bytes is not None:
        yield format_bytes(metric.memory_bytes)
    if metric.seconds_left:
        yield f"{format_seconds(metric.seconds_left)} left"


def _preference(metric: Metric) -> Iterator[str]:
    if metric.accuracy is not None:
        yield f"accuracy {metric.accuracy:.0%}"
    if metric.reward_margin is not None:
        yield f"margin {number(metric.reward_margin)}"


def _compared(before: Before, after: Before) -> Iterator[tuple[str, float | None, float | None]]:
    yield "loss", before.loss, after.loss
    yield "perplexity", before.perplexity, after.perplexity
    if after.accuracy is not None:
        yield "accuracy", before.accuracy, after.accuracy
    if after.reward_margin is not None:
        yield "reward margin", before.reward_margin, after.reward_margin


class _Lines:
    """Lines for a log: notes, validations, and of the steps one every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = float("-inf")

    def __call__(self, event: TrainEvent, /) -> None:
        if isinstance(event, Note):
            self._console.note(event.line)
        elif isinstance(event, Stage):
            self._console.note(event.message)
        elif isinstance(event, Metric) and self._is_due(event):
            self._console.note(plain_line(event))

    def _is_due(self, metric: Metric) -> bool:
        now = time.monotonic()
        if metric.kind == "train" and metric.step not in (1, metric.steps):
            if now - self._last < _LINE_SECONDS:
                return False
            self._last = now
        return True


class _Display:
    """A bar, figures and a curve at the bottom of a terminal; notes scroll above."""

    def __init__(self, console: Console, draw: Callable[[str], None]) -> None:
        self._console = console
        self._draw = draw
        self._losses: list[float] = []
        self._train: Metric | None = None
        self._valid: Metric | None = None
        self._saved: int | None = None
        self._stage = ""

    def __call__(self, event: TrainEvent, /) -> None:
        if isinstance(event, Note):
            self._console.note(event.line)
        elif isinstance(event, Stage):
            self._stage = event.message
        elif isinstance(event, Saved):
            self._saved = event.step
        elif event.kind == "val":
            self._valid = event
        else:
            self._train = event
            self._losses.append(event.loss)
        self._draw("\n".join(self._lines()))

    def _lines(self) -> Iterator[str]:
        if self._train is None:
            yield self._stage + " ..."
            return
        done = self._train.step / self._train.steps
        bar = "█" * round(_BAR * done) + "░" * (_BAR - round(_BAR * done))
        yield f"step {self._train.step} of {self._train.steps}  {bar}  {done:.0%}"
        yield "  ".join((f"loss {self._train.loss:.4g}", *_figures(self._train)))
        yield curve(self._losses)
        last = []
        if self._valid is not None:
            last.append(f"measured at step {self._valid.step}: {self._valid.loss:.4g}")
        if self._saved is not None:
            last.append(f"saved at step {self._saved}")
        yield "  ".join(last)


def curve(losses: list[float]) -> str:
    """Return a curve of one line: means of equal parts of the losses."""
    losses = [loss for loss in losses if math.isfinite(loss)]
    if not losses:
        return ""
    parts = min(_CURVE, len(losses))
    bounds = [len(losses) * part // parts for part in range(parts + 1)]
    means = [sum(losses[low:high]) / (high - low) for low, high in itertools.pairwise(bounds)]
    low, high = min(means), max(means)
    span = (high - low) or 1.0
    return "".join(_SPARKS[round((len(_SPARKS) - 1) * (mean - low) / span)] for mean in means)
