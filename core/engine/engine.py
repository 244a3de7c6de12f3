"""The engine: one model, one thread.

Thread ownership: everything that touches MLX arrays runs on the engine's thread: loading, every
step, and what `run_exclusive` is given. Other threads hand in requests under one lock and read
events from `Generation`. This module knows no arrays itself; `BatchRunner` has them.
"""

from __future__ import annotations

import atexit
import logging
import secrets
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from core.engine.batch import BatchRunner
from core.engine.cache.snapshot import KvSnapshot
from core.engine.cache.store import PromptCache
from core.engine.device import leave_thread, memory_now
from core.engine.events import Finished, FinishReason, Lane, Usage
from core.engine.generation import Generation
from core.engine.info import ComputeInfo, EngineStats, ModelInfo
from core.engine.loader import LoadedModel, merge_sampling
from core.engine.output import OutputPipeline
from core.engine.prompt import PromptBuilder
from core.engine.request import GenerationRequest, SamplingParams
from core.engine.scheduler import Row, Scheduler, cut
from core.engine.warmup import warm_up
from core.errors import EngineFailed, EngineStopped, MlxbunError
from core.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.engine.batch import StepToken, Taken

_log = logging.getLogger("mlxbun.engine")
_Result = TypeVar("_Result")

# Prompt tokens that one step computes over all rows. On a CPU mlx-lm's 2,048 is slower than 512
# (measured, SmolLM2-135M float32) and lets decoding rows wait for seconds.
_PREFILL_TOKENS_CPU = 512
_PREFILL_TOKENS_GPU = 2048


@dataclass(kw_only=True)
class _Counters:
    """What happened since the start. Written by the engine thread, `submitted` under the lock."""

    submitted: int = 0
    finished: int = 0
    cancelled: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0


class Engine:
    """Answers requests on one model.

    Use as a context manager, or call `close`. `submit` and `stats` may be called from any thread.
    """

    def __init__(
        self,
        load: Callable[[], LoadedModel],
        *,
        batch: int = 8,
        max_tokens: int | None = None,
        prompt_cache_bytes: int = 2 * GIB,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Start the thread and wait until it has loaded and warmed up the model.

        Args:
            load: makes the model, on the engine's thread.
            batch: rows that may run together; 1 is serial.
            max_tokens: most tokens of an answer whose request sets none; None: no bound.
            prompt_cache_bytes: most bytes of KV kept, running rows counted in; 0: none is kept.
            clock: a monotonic clock in seconds.

        Raises:
            MlxbunError: what `load` raised.
        """
        self._max_tokens = max_tokens
        self._clock = clock
        self._lane: Lane = "batched" if batch > 1 else "serial"
        self._scheduler = Scheduler(cap=batch)
        self._cache = PromptCache(prompt_cache_bytes)
        self._calls: list[tuple[Callable[[], Any], Future[Any]]] = []
        self._rows: dict[int, Row] = {}
        self._counters = _Counters()
        self._kv_bytes = 0
        self._closing = False
        self._wake = threading.Condition()
        started: Future[LoadedModel] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(load, started), name="mlxbun-engine", daemon=True
        )
        # A process that ends with the thread inside MLX would be aborted.
        atexit.register(self.close)
        self._thread.start()
        self._loaded = started.result()
        self._prompts = PromptBuilder(
            self._loaded.tokenizer,
            context=self.info.context_window,
            find_boundaries=self._cache.enabled and not self._loaded.cuttable,
        )

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def info(self) -> ModelInfo:
        """The model in memory."""
        return self._loaded.info

    @property
    def compute(self) -> ComputeInfo:
        """How it computes."""
        return self._loaded.compute

    @property
    def alive(self) -> bool:
        """Whether the engine's thread runs."""
        return self._thread.is_alive()

    def submit(self, request: GenerationRequest) -> Generation:
        """Accept a request: render, tokenize and queue it, in the caller's thread.

        Raises:
            BadRequest: the chat template refuses the conversation, or there is none.
            ContextTooLong: the prompt leaves no token to generate.
            QueueFull: too many requests wait.
            EngineStopped: the engine is closed.
        """
        prompt = self._prompts.build(request.prompt)
        room = self.info.context_window - len(prompt.tokens)
        wanted = request.max_tokens or self._max_tokens or room
        generation = Generation(prompt_tokens=len(prompt.tokens), on_cancel=self._notice)
        row = Row(
            generation=generation,
            prompt=prompt.tokens,
            boundaries=prompt.boundaries,
            sampling=self._settle(request.sampling),
            max_tokens=min(wanted, room),
            output=OutputPipeline(decode=self._loaded.tokenizer.decode, stops=request.stop),
        )
        with self._wake:
            if self._closing or not self.alive:
                raise EngineStopped("The engine has stopped.", hint="Start the server again.")
            self._scheduler.enqueue(row)
            self._counters.submitted += 1
            self._wake.notify_all()
        return generation

    def run_exclusive(self, work: Callable[[], _Result]) -> Future[_Result]:
        """Run `work` on the engine's thread between two steps and return its future.

        Raises:
            EngineStopped: the engine is closed.
        """
        future: Future[_Result] = Future()
        with self._wake:
            if self._closing or not self.alive:
                raise EngineStopped("The engine has stopped.")
            self._calls.append((work, future))
            self._wake.notify_all()
        return future

    def stats(self) -> EngineStats:
        """Return the counters of this moment."""
        counters, memory = self._counters, memory_now()
        return EngineStats(
            batch=self._scheduler.cap,
            active_rows=len(self._rows),
            waiting_rows=len(self._scheduler.waiting),
            submitted_rows=counters.submitted,
            finished_rows=counters.finished,
            cancelled_rows=counters.cancelled,
            failed_rows=counters.failed,
            kv_bytes=self._kv_bytes,
            prompt_tokens=counters.prompt_tokens,
            generated_tokens=counters.generated_tokens,
            memory_bytes=memory.active,
            memory_peak_bytes=memory.peak,
            memory_cache_bytes=memory.cache,
            memory_budget_bytes=self._loaded.budget_bytes,
            prompt_cache=self._cache.stats(),
        )

    def close(self, timeout: float = 30.0) -> None:
        """End the thread after its current step; unfinished answers fail. Safe to call twice.

        Args:
            timeout: seconds to wait for the step.
        """
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join(timeout)
        atexit.unregister(self.close)

    # In the caller's thread.

    def _settle(self, wanted: SamplingParams) -> SamplingParams:
        settled = merge_sampling(wanted, self.info.defaults)
        seed = settled.seed if settled.seed is not None else secrets.randbits(32)
        return replace(settled, seed=seed)

    def _notice(self, _generation: Generation) -> None:
        with self._wake:
            self._wake.notify_all()

    # On the engine's thread.

    def _run(self, load: Callable[[], LoadedModel], started: Future[LoadedModel]) -> None:
        try:
            loaded = load()
            loaded, self._runner = warm_up(loaded, self._make_runner)
        except BaseException as error:  # handed to the thread that waits in the constructor
            leave_thread()
            started.set_exception(error)
            return
        started.set_result(loaded)
        try:
            while self._wait_for_work():
                self._turn()
        finally:
            self._stop()
            leave_thread()

    def _make_runner(self, loaded: LoadedModel) -> BatchRunner:
        on_cpu = loaded.compute.device == "cpu"
        return BatchRunner(
            loaded.model,
            eos_ids=loaded.tokenizer.eos_ids,
            cap=self._scheduler.cap,
            prefill_tokens_per_step=_PREFILL_TOKENS_CPU if on_cpu else _PREFILL_TOKENS_GPU,
        )

    def _wait_for_work(self) -> bool:
        """Sleep until there is something to do; return False when the engine is to end."""
        with self._wake:
            self._wake.wait_for(
                lambda: self._closing or self._rows or self._scheduler.waiting or self._calls
            )
            return not self._closing

    def _turn(self) -> None:
        """Serve calls, let cancelled rows go, admit waiting ones, and compute one step."""
        self._serve_calls()
        self._drop_cancelled()
        try:
            self._admit()
            if self._rows:
                self._step()
        except Exception as error:  # whatever MLX raises ends these answers, not the engine
            _log.exception("a step failed")
            self._fail_running(error)
        self._kv_bytes = self._runner.kv_bytes
        self._cache.make_room(self._kv_bytes)
        if not self._rows and not self._scheduler.waiting:
            self._runner.rest()

    def _serve_calls(self) -> None:
        with self._wake:
            calls, self._calls = self._calls, []
        for work, future in calls:
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # it belongs to whoever asked
                future.set_exception(error)

    def _drop_cancelled(self) -> None:
        with self._wake:
            self._counters.cancelled += len(self._scheduler.drop_cancelled())
        for number in [n for n, row in self._rows.items() if row.generation.cancelled]:
            self._take_out(number)
            self._counters.cancelled += 1

    def _admit(self) -> None:
        with self._wake:
            rows = self._scheduler.admit(len(self._rows))
        for row in rows:
            row.admitted_at = self._clock()
            hit = self._cache.lookup(row.namespace, row.prompt) if self._cache.enabled else None
            row.cached = hit.length if hit else 0
            number = self._runner.insert(
                cut(row.prompt, row.cached, row.boundaries),
                max_tokens=row.max_tokens,
                sampling=row.sampling,
                cached=row.prompt[: row.cached],
                caches=hit.caches if hit else None,
            )
            self._rows[number] = row
            self._counters.prompt_tokens += len(row.prompt) - row.cached

    def _step(self) -> None:
        step = self._runner.step()
        for number in step.boundaries:
            self._keep(self._rows[number], self._runner.take(number))
        for token in step.tokens:
            self._deliver(token)

    def _keep(self, row: Row, taken: Taken) -> None:
        """Put what a row has computed into the prompt cache."""
        if self._cache.enabled:
            self._cache.store(row.namespace, taken.tokens, KvSnapshot(taken.caches))

    def _take_out(self, number: int) -> None:
        """Take a row out before its end; what it has computed serves the next one like it."""
        row = self._rows.pop(number)
        self._keep(row, self._runner.take(number))
        self._runner.remove(number)

    def _deliver(self, token: StepToken) -> None:
        """Turn a token into events; end the row when the token or its text ends it."""
        row = self._rows[token.row]
        row.generated += 1
        if row.generated == 1:
            row.first_token_at = self._clock()
        if not token.eos:
            for event in row.output.push(token.token):
                row.generation.put(event)
        if token.taken is not None:
            del self._rows[token.row]
            self._keep(row, token.taken)
        elif row.output.stopped:
            self._take_out(token.row)
        else:
            return
        self._finish(row, eos=token.eos)

    def _finish(self, row: Row, *, eos: bool) -> None:
        for event in row.output.flush():
            row.generation.put(event)
        reason: FinishReason = "stop" if eos or row.output.stopped else "length"
        now = self._clock()
        self._counters.finished += 1
        self._counters.generated_tokens += row.generated
        usage = Usage(
            prompt_tokens=len(row.prompt),
            completion_tokens=row.generated,
            cached_tokens=row.cached,
            lane=self._lane,
            prefill_seconds=row.first_token_at - row.admitted_at,
            decode_seconds=now - row.first_token_at,
        )
        row.generation.put(Finished(reason=reason, usage=usage))

    def _fail_running(self, error: Exception) -> None:
        text = " ".join(str(error).split()) or type(error).__name__
        failure = EngineFailed(f"The generation failed: {text}")
        rows, self._rows = list(self._rows.values()), {}
        self._counters.failed += len(rows)
        for row in rows:
            row.generation.fail(failure)
        self._runner.reset()

    def _stop(self) -> None:
        with self._wake:
            self._closing = True
            rows = [*self._rows.values(), *self._scheduler.drop_all()]
            self._rows = {}
            calls, self._calls = self._calls, []
        stopped: MlxbunError = EngineStopped("The engine has stopped.")
        for row in rows:
            row.generation.fail(stopped)
        for _, future in calls:
            future.set_exception(stopped)
        self._runner.close()
