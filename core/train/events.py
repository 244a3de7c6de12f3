"""What a training tells while it runs, and what it came to. Imports no arrays.

As JSON the events are those of a job's log (`type` log, stage, metric), and the metrics are also
the lines of `metrics.jsonl`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Protocol


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something worth knowing, one sentence."""

    line: str
    """The sentence."""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of the work begins."""

    stage: str
    """`loading`, `data`, `measuring`, `training`, `saving`."""
    progress: float
    """Share of the whole that is done, from 0 to 1."""
    message: str
    """What is being done, for people."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """Figures of some steps, or of a validation."""

    kind: Literal["train", "val"]
    """Which of them."""
    step: int
    """The last step that they include; 0: before any."""
    steps: int
    """Steps of the whole training."""
    loss: float
    """The method's, in nats; of several steps their mean."""
    accuracy: float | None = None
    """Share of the pairs whose chosen response is likelier, by the mean log-probability of its
    tokens; None: no pairs."""
    reward_margin: float | None = None
    """DPO's implicit reward of the chosen response over the rejected one, mean over the pairs, in
    nats; None: not DPO."""
    perplexity: float | None = None
    """Of the responses; None: not measured."""
    learning_rate: float | None = None
    """Of the last step."""
    grad_norm: float | None = None
    """Of the last step, before it was clipped."""
    tokens_per_sec: float | None = None
    """Tokens a second over these steps, padding left out."""
    trained_tokens: int | None = None
    """Tokens since the start of the training."""
    memory_bytes: int | None = None
    """The most memory that MLX held since the start of this process."""
    seconds_left: float | None = None
    """Until the last step, at this pace; None: not known yet."""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A checkpoint is on disk."""

    step: int
    """Whose."""
    path: str
    """The file."""


TrainEvent = Note | Stage | Metric | Saved


class OnEvent(Protocol):
    """Hears every event; must return fast and must not raise."""

    def __call__(self, event: TrainEvent, /) -> None:
        """Take one event."""


@dataclass(frozen=True, kw_only=True)
class Before:
    """A loss and a perplexity that were measured."""

    loss: float
    """In nats."""
    perplexity: float
    """Of the responses."""
    accuracy: float | None = None
    """Share of the pairs whose chosen response is likelier, by the mean log-probability of its
    tokens; None: no pairs."""
    reward_margin: float | None = None
    """DPO's implicit reward of the chosen response over the rejected one, mean over the pairs, in
    nats; None: not DPO."""


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """What a training came to."""

    adapter_path: str
    """The folder of the adapter."""
    ended: Literal["done", "early", "stopped"]
    """`early`: validations did not get better any more; `stopped`: it was asked to."""
    step: int
    """The last step that was computed."""
    adapter_step: int
    """The step whose adapter was kept: the best one where there are validations."""
    before: Before
    """The base model, or what was gone on from."""
    after: Before
    """With the adapter that was kept."""
    measured_on: str
    """What these were measured on: `validation`, or `training` rows where there is none."""
    trained_tokens: int
    """Tokens that were learned from, repetitions included."""
    seconds: float
    """Time in this process."""
    memory_bytes: int
    """The most memory that MLX held."""


def event_as_json(event: TrainEvent) -> dict[str, Any]:
    """Return an event as a job's log has it; what is not known is left out."""
    if isinstance(event, Note):
        return {"type": "log", "line": event.line}
    if isinstance(event, Saved):
        return {
            "type": "log",
            "line": f"saved the checkpoint of step {event.step}",
            **asdict(event),
        }
    kind = "stage" if isinstance(event, Stage) else "metric"
    values = {name: value for name, value in asdict(event).items() if value is not None}
    return {"type": kind, **{name: _plain(value) for name, value in values.items()}}


def metric_from_json(values: Any) -> Metric | None:
    """Return the metric that `event_as_json` made an object of; None: it is something else."""
    known = {each.name: each for each in fields(Metric)}
    if not isinstance(values, dict) or values.get("kind") not in ("train", "val"):
        return None
    figures = {name: values[name] for name in known if name in values and name != "kind"}
    figures = {"loss": None} | figures
    # What is no number in JSON was infinite, or no number.
    figures = {name: math.nan if v is None else v for name, v in figures.items()}
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in figures.values()):
        return None
    step, steps = figures.get("step"), figures.get("steps")
    if not isinstance(step, int) or not isinstance(steps, int) or step < 0 or steps < 1:
        return None
    return Metric(kind=values["kind"], **figures)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: no number that is none."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
