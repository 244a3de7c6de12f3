"""What the benchmark store has of a model on this machine, as far as it answers a question."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from core.figures import machine_key

if TYPE_CHECKING:
    from core.figures import FigureStore, Run
    from core.fit.candidate import Candidate
    from core.machine.probe import Machine


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Figures of the newest benchmark of these very files."""

    measured_at: datetime
    """When it ended."""
    loaded_as: str
    """The form that the weights had in memory."""
    decode: float | None
    """Tokens a second of all rows together; None: not measured with as many rows."""
    prefill: float | None
    """Prompt tokens a second; None: not measured."""
    prefill_tokens: int | None
    """Tokens of that prompt: of those that were measured, the nearest to the context."""
    ttft: float | None
    """Seconds that a prompt as long as the context takes at those rates; None: not measured."""

    @property
    def day(self) -> str:
        """The day, for people: `2026-11-29`."""
        return self.measured_at.date().isoformat()


def find_measured(
    store: FigureStore, candidate: Candidate, machine: Machine, *, context: int, rows: int
) -> Measured | None:
    """Return what was measured of a model on a machine; None: nothing that is of use.

    Raises:
        MlxbunError: the store cannot be read.
    """
    run = store.latest(
        model_id=candidate.model_id, revision=candidate.revision, machine=machine_key(machine)
    )
    when = _when(run) if run else None
    if run is None or when is None:
        return None
    decode = run.figure("decode", rows)
    prefills = [figure for figure in run.figures if figure.kind == "prefill"]
    prefill = min(prefills, key=lambda figure: abs(figure.size - context), default=None)
    if decode is None and prefill is None:
        return None
    return Measured(
        measured_at=when,
        loaded_as=run.settings.loaded_as,
        decode=decode.median if decode else None,
        prefill=prefill.median if prefill else None,
        prefill_tokens=prefill.size if prefill else None,
        ttft=_ttft(run, prefill.median, context) if prefill else None,
    )


def _ttft(run: Run, prefill: float, context: int) -> float | None:
    """Return the time of a whole prompt at a rate, and of the first token where that is known."""
    if prefill <= 0:
        return None
    alone = run.figure("decode", 1)
    first = 1 / alone.median if alone and alone.median > 0 else 0.0
    return context / prefill + first


def _when(run: Run) -> datetime | None:
    try:
        return datetime.fromisoformat(run.measured_at)
    except ValueError:
        return None
