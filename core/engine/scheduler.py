"""Who waits, who runs and who comes next: policy over counts. Imports no arrays.

Not thread-safe by itself: the engine guards it with its lock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING

from core.engine.trail import Trail
from core.errors import QueueFull

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.engine.choices import Family
    from core.engine.constraint import Constraint
    from core.engine.events import Position
    from core.engine.generation import Generation
    from core.engine.output import OutputPipeline
    from core.engine.request import SamplingParams


@dataclass(kw_only=True)
class Row:
    """One request on its way through the engine."""

    generation: Generation
    """The caller's end."""
    prompt: list[int]
    """Prompt tokens; never empty."""
    sampling: SamplingParams
    """Every field set."""
    max_tokens: int
    """Most tokens to generate, at least 1, already capped to the context."""
    output: OutputPipeline
    """Turns its tokens into events."""
    boundaries: tuple[int, ...] = ()
    """Prompt lengths at which the KV is worth keeping, ascending."""
    namespace: str = ""
    """What the KV depends on beside the tokens."""
    constraint: Constraint | None = None
    """What it may generate; None: anything."""
    stop_tokens: frozenset[int] = frozenset()
    """Tokens that end it as EOS does."""
    logprobs: int | None = None
    """None: no log-probabilities; 0: the chosen tokens'; n: the n likeliest ones' as well."""
    family: Family | None = None
    """The other answers to the same prompt; None: there are none."""
    cached: int = 0
    """Prompt tokens whose KV came from the prompt cache."""
    answer: list[int] = field(default_factory=list)
    """Tokens generated so far, EOS included."""
    positions: list[Position] = field(default_factory=list)
    """Their log-probabilities, when these are wanted."""
    pending: bool = True
    """Whether it is still to start: in the queue, or waiting for another answer's prompt."""
    trail: Trail = field(default_factory=Trail)
    """What its way is measured by."""
    queued_at: float = field(default_factory=perf_counter)
    """Clock when it began to wait, in seconds."""
    start_seconds: float = 0.0
    """What looking its prompt up in the cache took, and taking it over."""
    admitted_at: float = 0.0
    """Clock when it left the queue, in seconds."""
    first_token_at: float = 0.0
    """Clock at its first token, in seconds."""

    @property
    def tokens(self) -> list[int]:
        """Prompt and answer so far."""
        return self.prompt + self.answer

    @property
    def length(self) -> int:
        """Tokens of prompt and answer so far."""
        return len(self.prompt) + len(self.answer)

    @property
    def to_come(self) -> int:
        """Most tokens that it may still generate."""
        return self.max_tokens - len(self.answer)


@dataclass(kw_only=True)
class Scheduler:
    """Queues rows and decides which enter the batch."""

    cap: int
    """Rows that may run together."""
    queue_limit: int = 64
    """Requests that may wait."""
    waiting: deque[Row] = field(default_factory=deque)
    """In the order they came."""

    def enqueue(self, *rows: Row, running: int = 0) -> None:
        """Let rows wait for their turns: all of them, or none.

        Where nothing waits, a request is accepted however many rows it has.

        Args:
            rows: those of one request.
            running: rows that run; those that a free place is there for do not count as waiting.

        Raises:
            QueueFull: too many wait already.
        """
        room = self.queue_limit + max(0, self.cap - running)
        if self.waiting and len(self.waiting) + len(rows) > room:
            raise QueueFull(
                f"{len(self.waiting)} requests are waiting already.",
                hint="Try again in a moment.",
            )
        self.waiting.extend(rows)

    def admit(self, running: int, may_start: Callable[[Row], bool]) -> Row | None:
        """Take the row that may start now: the first one, or none.

        A first row that does not fit yet is waited for: small ones that pass it would starve it.

        Args:
            running: rows that run.
            may_start: whether there is memory for a row.
        """
        if running >= self.cap or not self.waiting or not may_start(self.waiting[0]):
            return None
        return self.waiting.popleft()

    def drop_cancelled(self) -> list[Row]:
        """Take out the waiting rows whose callers have left."""
        gone = [row for row in self.waiting if row.generation.cancelled]
        if gone:
            self.waiting = deque(row for row in self.waiting if not row.generation.cancelled)
        return gone

    def drop_all(self) -> list[Row]:
        """Take out every waiting row."""
        rows = list(self.waiting)
        self.waiting.clear()
        return rows


def cut(prompt: list[int], start: int, boundaries: tuple[int, ...]) -> list[list[int]]:
    """Return the tokens of `prompt` from `start` on, cut at the boundaries that lie between."""
    cuts = [start, *(b for b in boundaries if start < b < len(prompt)), len(prompt)]
    return [prompt[a:b] for a, b in pairwise(cuts)]


def prefill_chunk(prefilling: int, tokens_per_step: int) -> int:
    """Return how many prompt tokens each prefilling row computes in the next step.

    Args:
        prefilling: rows in prefill.
        tokens_per_step: tokens that the step may prefill over all rows.
    """
    return max(1, tokens_per_step // max(1, prefilling))
