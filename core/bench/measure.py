"""Measures a running engine, step after step of a plan. Never touches arrays itself.

- TTFT is the caller's time from handing the request in to the first event: rendering, tokenizing
  and queueing are in it. *Cold*: no part of the prompt is known; *warm*: the same prompt again.
- Prefill is the prompt's tokens that had to be computed over the engine's time from the row's
  admission to its first token, in the cold request.
- Decode is counted while all rows run, from their first tokens to the end of the first of them, by
  the engine's clock.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from core.bench.prompts import make_text
from core.engine.events import Finished
from core.engine.request import GenerationRequest, SamplingParams, TextPrompt
from core.errors import ContextTooLong
from core.progress import Progress, ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from core.bench.plan import Plan, Step
    from core.engine.engine import Engine
    from core.engine.events import Event, Usage
    from core.engine.generation import Generation
    from core.figures import FigureKind
    from core.progress import OnProgress

_GREEDY = SamplingParams(temperature=0.0, top_p=0.0, top_k=0, min_p=0.0, seed=0)
# A model may end an answer before its time. Then other prompts are tried.
_TRIES = 4
_REHEARSED_TOKENS = 4


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One measured value."""

    kind: FigureKind
    """What was measured."""
    size: int
    """Prompt tokens, or rows."""
    value: float
    """Tokens a second, or seconds."""


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """One request, measured."""

    ttft: float
    """Seconds from handing it in to the first event."""
    usage: Usage
    """What the engine says of it."""


@dataclass(frozen=True, kw_only=True)
class _Window:
    """Decoding while all rows ran."""

    steps: int
    """Steps in it; 0: a row ended with its first token."""
    seconds: float
    """What they took."""


def measure(
    engine: Engine,
    plan: Plan,
    *,
    seed: int = 0,
    on_progress: OnProgress = ignore_progress,
    on_note: Callable[[str], None] = lambda _note: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Sample]:
    """Yield samples as they are measured; stopping in the middle leaves the engine usable.

    Args:
        engine: idle, and nobody else's meanwhile.
        plan: made for this engine.
        seed: chooses the prompts' words.
        on_progress: hears of every step.
        on_note: hears in one sentence of what could not be measured.
        clock: seconds, monotonic.

    Raises:
        EngineFailed: the engine could not answer.
    """
    bench = _Bench(engine, plan, random=Random(seed), on_note=on_note, clock=clock)
    steps = plan.steps
    on_progress(_progress(0, len(steps)))
    bench.rehearse()
    for done, step in enumerate(steps, start=1):
        yield from bench.take(step)
        on_progress(_progress(done, len(steps)))


class _Bench:
    """Measures steps on one engine."""

    def __init__(
        self,
        engine: Engine,
        plan: Plan,
        *,
        random: Random,
        on_note: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._plan = plan
        self._random = random
        self._on_note = on_note
        self._clock = clock
        self._noted: set[str] = set()

    def rehearse(self) -> None:
        """Let what happens once happen before the clock runs: kernels, pages, growing buffers."""
        self._ask(self._text(self._plan.prompts[0]))
        self._decode_together(self._plan.rows[-1], _REHEARSED_TOKENS)
        self._settle()

    def take(self, step: Step) -> Iterator[Sample]:
        """Yield the samples of one step."""
        yield from self._prompt(step.size) if step.kind == "prompt" else self._rows(step.size)

    def _prompt(self, size: int) -> Iterator[Sample]:
        text = self._text(size)
        cold = self._ask(text)
        computed = cold.usage.prompt_tokens - cold.usage.cached_tokens
        rate = computed / cold.usage.prefill_seconds
        yield Sample(kind="prefill", size=size, value=rate)
        yield Sample(kind="ttft_cold", size=size, value=cold.ttft)
        if self._plan.warm:
            self._settle()
            warm = self._ask(text)
            if 2 * warm.usage.cached_tokens < warm.usage.prompt_tokens:
                self._note(
                    f"The prompt cache kept {warm.usage.cached_tokens} of {size} tokens of the "
                    "same text: this model's KV cannot be cut, or --prompt-cache is too small."
                )
            yield Sample(kind="ttft_warm", size=size, value=warm.ttft)
        self._settle()

    def _rows(self, rows: int) -> Iterator[Sample]:
        best = _Window(steps=0, seconds=0.0)
        for _ in range(_TRIES):
            window = self._decode_together(rows, self._plan.tokens)
            if window is None:
                self._note(f"The memory does not hold {rows} rows together: not measured.")
                return
            best = max(best, window, key=lambda each: each.steps)
            if 2 * best.steps >= self._plan.tokens - 1:
                break
        self._settle()
        if best.steps:
            yield Sample(kind="decode", size=rows, value=rows * best.steps / best.seconds)
        else:
            self._note("The model ends its answers at once: decoding cannot be measured.")

    def _ask(self, text: str) -> _Answer:
        """Ask for one token and measure the way to it."""
        request = _request(text, max_tokens=1)
        began = self._clock()
        generation = self._engine.submit(request)
        try:
            events = iter(generation)
            first = next(events)
            ttft = self._clock() - began
            end = first if isinstance(first, Finished) else _end(events)
        finally:
            generation.cancel()
        return _Answer(ttft=ttft, usage=end.usage)

    def _decode_together(self, rows: int, tokens: int) -> _Window | None:
        """Decode new rows together; None when the memory does not hold all of them."""
        requests = [
            _request(self._text(self._plan.decode_prompt), max_tokens=tokens) for _ in range(rows)
        ]
        generations: list[Generation] = []
        try:
            with self._held_still():
                generations.extend(map(self._engine.submit, requests))
                # Runs after the turn that takes them in: who waits then, waits for memory.
                waiting = self._engine.run_exclusive(lambda: self._engine.stats().waiting_rows)
            if waiting.result():
                return None
            return _common_window([_end(generation).usage for generation in generations])
        finally:
            for generation in generations:
                generation.cancel()

    @contextmanager
    def _held_still(self) -> Iterator[None]:
        """Keep the engine from starting anything, so that it takes in all requests in one turn."""
        held, let_go = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            let_go.wait()

        future = self._engine.run_exclusive(hold)
        future.add_done_callback(lambda _future: held.set())  # also of an engine that is lost
        try:
            held.wait()
            yield
        finally:
            let_go.set()

    def _text(self, tokens: int) -> str:
        return make_text(tokens, count=self._count, random=self._random)

    def _count(self, text: str) -> int:
        try:
            return self._engine.count_tokens(TextPrompt(text=text))
        except ContextTooLong as problem:
            return problem.prompt_tokens

    def _settle(self) -> None:
        """Wait until the engine has nothing left to do: it computes one step ahead."""
        self._engine.run_exclusive(_finish_step).result()

    def _note(self, sentence: str) -> None:
        if sentence not in self._noted:
            self._noted.add(sentence)
            self._on_note(sentence)


def _request(text: str, *, max_tokens: int) -> GenerationRequest:
    return GenerationRequest(prompt=TextPrompt(text=text), sampling=_GREEDY, max_tokens=max_tokens)


def _end(events: Iterable[Event]) -> Finished:
    """Wait for the last event of an answer."""
    return next(event for event in events if isinstance(event, Finished))


def _common_window(usages: list[Usage]) -> _Window:
    """Return the time until the first of several rows ended, all begun together."""
    first = min(usages, key=lambda usage: (usage.completion_tokens, usage.decode_seconds))
    return _Window(steps=first.completion_tokens - 1, seconds=first.decode_seconds)


def _finish_step() -> None:
    import mlx.core as mx
    from mlx_lm.generate import generation_stream

    mx.synchronize(generation_stream)


def _progress(done: int, total: int) -> Progress:
    return Progress(task="measuring", done=done, total=total, unit="measurements")
