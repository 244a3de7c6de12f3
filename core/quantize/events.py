"""Events of a running quantization. Imports no arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage begins or makes progress."""

    stage: str
    """`reading`, `sweep`, `packing`, `checking`, `proof`: one word."""
    progress: float
    """Of the whole work, 0 to 1."""
    message: str
    """A short description for people."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something worth knowing, in one sentence."""

    line: str
    """The sentence."""


QuantizeEvent = Stage | Note
OnEvent = Callable[[QuantizeEvent], None]


def ignore_event(_event: QuantizeEvent, /) -> None:
    """Do nothing."""


def event_as_json(event: QuantizeEvent) -> dict[str, Any]:
    """Return an event as a line of a job's log, in the shapes of `/api/jobs/{id}/stream`."""
    if isinstance(event, Note):
        return {"type": "log", "line": event.line}
    return {"type": "stage", **asdict(event)}
