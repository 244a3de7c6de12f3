"""A synthesis that kills itself at a given point: `python -m tests.…child WORKDIR POINT`.

POINT is `started STAGE` or `progress STAGE` (the first event of that kind), `answer N` (before the
model's Nth answer), or the name of a method below (before it, or after it with `after`).
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from core.memory.evals.oracle import OracleModel
from core.memory.evals.run import Bench
from core.memory.events import StageProgress, StageStarted
from core.memory.git import Git
from core.memory.store import ConversationStore
from core.memory.writer import Edit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.memory.asking import Question
    from core.memory.evals.labels import Corpus
    from core.memory.events import SynthesisEvent

METHODS: dict[str, tuple[type, str]] = {
    "commit": (Edit, "commit"),
    "move_ref": (Git, "move_ref"),
    "mark_synthesized": (ConversationStore, "mark_synthesized"),
}


def clock() -> datetime:
    """Return the moment at which all runs of these tests take place."""
    return datetime(2026, 2, 1, 3, 0, tzinfo=UTC)


def die() -> NoReturn:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


class MortalOracle(OracleModel):
    """The oracle, until its last answer."""

    def __init__(self, corpus: Corpus, answers: int) -> None:
        super().__init__(corpus)
        self.left = answers

    def answer(self, question: Question, *, cancelled: Callable[[], bool]) -> Mapping[str, Any]:
        if self.left == 0:
            die()
        self.left -= 1
        return super().answer(question, cancelled=cancelled)


def deadly(kind: str, stage: str) -> Callable[[SynthesisEvent], None]:
    """Return a hearer that dies at an event."""

    def hear(event: SynthesisEvent) -> None:
        if (
            (isinstance(event, StageStarted) and kind == "started")
            or (isinstance(event, StageProgress) and kind == "progress")
        ) and event.stage == stage:
            die()

    return hear


def arm(kind: str, name: str) -> None:
    """Make a method deadly."""
    owner, method = METHODS[name]
    right = getattr(owner, method)

    def wrong(*args: Any, **keys: Any) -> NoReturn:
        if kind == "after":
            right(*args, **keys)
        die()

    setattr(owner, method, wrong)


def main(workdir: str, kind: str, what: str) -> None:
    bench = Bench("project", Path(workdir))
    if kind in ("before", "after"):
        arm(kind, what)
    answers = int(what) if kind == "answer" else -1
    bench.synthesize(
        bench.corpus.batches()[1],
        lambda: MortalOracle(bench.corpus, answers),
        on_event=deadly(kind, what),
        clock=clock,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
