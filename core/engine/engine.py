"""The engine: one model, one thread.

Thread ownership: everything that touches MLX arrays runs on the engine's thread: loading, every
step, and what `run_exclusive` is given. Other threads leave requests in the `Inbox` and read events
from `Generation`. This module starts, ends and watches that thread; `Worker` is what runs on it.
"""

from __future__ import annotations

import atexit
import logging
import secrets
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from core.engine.batch import BatchRunner
from core.engine.cache.store import PromptCache
from core.engine.choices import Family, choice_sampling
from core.engine.device import forget_arrays, leave_thread, memory_now
from core.engine.events import Span
from core.engine.features import facts_of, features_of, placement
from core.engine.generation import Generation
from core.engine.grammar.library import has_xgrammar
from core.engine.inbox import Inbox
from core.engine.info import ComputeInfo, EngineStats, ModelInfo
from core.engine.loader import LoadedModel, check_bias, merge_sampling
from core.engine.preparing import Preparer
from core.engine.prompt import PromptBuilder
from core.engine.request import GenerationRequest
from core.engine.scheduler import Row, Scheduler
from core.engine.warmup import warm_up
from core.engine.watchdog import Stall, Watchdog
from core.engine.worker import Counters, Worker, most_prefill
from core.errors import BadRequest, ContextTooLong, EngineFailed, EngineStopped, MlxbunError
from core.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.engine.pacing import Preference
    from core.engine.preparing import Prepared
    from core.engine.request import ChatPrompt, SamplingParams, TextPrompt
    from core.fit.batching import BatchingShelf, BatchMode

_log = logging.getLogger("mlxbun.engine")
_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """How an engine runs its rows."""

    batch: int = 8
    """Rows that may run together; 1 is serial."""
    max_tokens: int | None = None
    """Most tokens of an answer whose request sets none; None: until the context is full."""
    prompt_cache_bytes: int = 2 * GIB
    """Most bytes of KV kept, running rows counted in; 0: none is kept."""
    thinking: bool | None = None
    """Whether models reason when a request does not say; None: as they like."""
    grammar: bool = True
    """Whether the form that a request asks for is enforced."""
    prefill: Preference = "latency"
    """What a long prompt may cost the rows that decode."""
    stall_seconds: float = 120.0
    """Without progress, while there is work, until the engine counts as lost."""
    keep_alive_seconds: float | None = None
    """Without work until the model leaves memory; the next request loads it again. None: never."""


class Engine:
    """Answers requests on one model.

    Use as a context manager, or call `close`. `submit` and `stats` may be called from any thread.
    """

    def __init__(
        self,
        load: Callable[[], LoadedModel],
        options: EngineOptions | None = None,
        *,
        shelf: BatchingShelf | None = None,
        meanwhile: Callable[[], object] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Start the thread and wait until it has loaded and warmed up the model.

        Args:
            load: makes the model, on the engine's thread.
            options: how to run; None: the defaults.
            shelf: where it is kept how rows run together on a model; None: it is tried every time.
            meanwhile: called in this thread while the weights are read; must not raise.
            clock: a monotonic clock in seconds.

        Raises:
            MlxbunError: what `load` raised, or the model cannot compute a token.
        """
        self._options = options or EngineOptions()
        self._shelf = shelf
        self._clock = clock
        self._inbox = Inbox(Scheduler(cap=self._options.batch))
        self._cache = PromptCache(self._options.prompt_cache_bytes)
        self._counters = Counters()
        self._submitted = 0
        self._stall = Stall()
        self._watchdog: Watchdog | None = None
        self._load = load
        self._worker: Worker | None = None
        self._tokens_at_restart = -1
        # A process that ends with the thread inside MLX would be aborted.
        atexit.register(self.close)
        started = self._start_thread()
        if meanwhile:
            meanwhile()
        self._loaded = started.result()
        prompts = PromptBuilder(
            self._loaded.tokenizer,
            context=self.max_context,
            window=self._loaded.admission.context_window,
            find_boundaries=self._cache.enabled and not self._loaded.cuttable,
        )
        self._preparer = Preparer(
            self._loaded.tokenizer,
            prompts,
            vocabulary=self._loaded.info.vocabulary_size or 0,
            thinking=self._options.thinking,
            grammar=self._options.grammar,
        )
        has_template = self._loaded.info.has_chat_template
        self._info = replace(
            self._loaded.info,
            tools=has_template,
            reasoning=has_template and self._preparer.reasons,
            forms=self._options.grammar and has_xgrammar(),
        )
        self._watchdog = Watchdog(self._find_trouble, self._give_up)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def info(self) -> ModelInfo:
        """The model in memory."""
        return replace(self._info, batching=self._batching)

    @property
    def compute(self) -> ComputeInfo:
        """How it computes."""
        return self._loaded.compute

    @property
    def max_context(self) -> int:
        """Tokens of prompt and answer that fit the model and the memory."""
        return self._loaded.admission.max_context

    @property
    def alive(self) -> bool:
        """Whether the engine can answer now; for a moment it may be starting its thread again."""
        return self._thread.is_alive() and not self._inbox.closed

    @property
    def lost(self) -> bool:
        """Whether the engine will never answer again: closed, stuck, or dead beyond a restart."""
        return self._inbox.closed

    def submit(self, request: GenerationRequest) -> Generation:
        """Accept a request for one answer, as `submit_choices` does."""
        (generation,) = self.submit_choices(replace(request, choices=1))
        return generation

    def submit_choices(self, request: GenerationRequest) -> list[Generation]:
        """Accept a request, as `submit_together` does."""
        return self.submit_together((request,))

    def submit_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Accept requests: render, tokenize and queue them, in the caller's thread, all or none.

        Returns:
            One answer for each choice of each request; the choices of one share their prefill.

        Raises:
            BadRequest: the chat template refuses the conversation, or there is none; or a bias is
                for a token that the vocabulary does not have.
            ContextTooLong: the prompt leaves no token to generate.
            QueueFull: too many requests wait.
            EngineStopped: the engine is closed or lost.
        """
        rows = [row for request in requests for row in self._rows(request)]
        worker = self._worker
        self._inbox.put(*rows, running=len(worker.rows) if worker else 0)
        self._submitted += len(rows)
        return [row.generation for row in rows]

    def _rows(self, request: GenerationRequest) -> list[Row]:
        """Return one row for each choice of a request."""
        began = self._clock()
        self._refuse_impossible(request)
        placement = Span(began=began, seconds=self._clock() - began)
        prepared = self._prepare(request)
        sampling = self._settle(request.sampling)
        several = request.choices > 1 and len(prepared.prompt.tokens) > 1
        family = Family() if several else None
        rows = [
            self._row(request, prepared, choice_sampling(sampling, index), family)
            for index in range(request.choices)
        ]
        for row in rows:
            row.trail.placement = placement
        if family:
            family.members.extend(rows)
        return rows

    def _prepare(self, request: GenerationRequest) -> Prepared:
        try:
            return self._preparer.prepare(request)
        except ContextTooLong as problem:
            if self._loaded.admission.short_of_kv_budget:
                problem.hint = "Shorten the prompt, or raise the server's --kv-budget."
            raise

    def _refuse_impossible(self, request: GenerationRequest) -> None:
        facts, batch = facts_of(self._info), self._options.batch
        placed = placement(features_of(request), batch=batch, facts=facts)
        # Without a chat template the tokenizer says so, and what to do instead.
        if placed.lane == "refused" and facts.chat:
            raise BadRequest(placed.reason or "The request cannot be answered.")

    def _row(
        self,
        request: GenerationRequest,
        prepared: Prepared,
        sampling: SamplingParams,
        family: Family | None,
    ) -> Row:
        """Return what one answer is generated from."""
        prompt = prepared.prompt
        room = self.max_context - len(prompt.tokens)
        wanted = request.max_tokens or self._options.max_tokens or room
        generation = Generation(
            prompt_tokens=len(prompt.tokens),
            on_cancel=lambda _: self._inbox.wake(),
            warnings=prepared.warnings,
        )
        return Row(
            generation=generation,
            prompt=prompt.tokens,
            boundaries=prompt.boundaries,
            sampling=sampling,
            max_tokens=min(wanted, room),
            output=prepared.make_output(),
            stop_tokens=prepared.stop_tokens,
            logprobs=request.logprobs,
            constraint=prepared.make_constraint(),
            family=family,
        )

    def count_tokens(self, prompt: ChatPrompt | TextPrompt) -> int:
        """Return how many tokens a prompt has, in the caller's thread; nothing is computed.

        Raises:
            BadRequest: the chat template refuses the conversation, or there is none.
            ContextTooLong: they leave no token to generate.
        """
        return len(self._preparer.prepare(GenerationRequest(prompt=prompt)).prompt.tokens)

    def run_exclusive(self, work: Callable[[], _Result]) -> Future[_Result]:
        """Run `work` on the engine's thread between two steps and return its future.

        Raises:
            EngineStopped: the engine is closed or lost.
        """
        return self._inbox.call(work)

    def stats(self) -> EngineStats:
        """Return the counters of this moment."""
        counters, memory, worker = self._counters, memory_now(), self._worker
        return EngineStats(
            batch=self._options.batch,
            loaded=worker is not None,
            active_rows=len(worker.rows) if worker else 0,
            waiting_rows=len(self._inbox.scheduler.waiting),
            submitted_rows=self._submitted,
            finished_rows=counters.finished,
            cancelled_rows=counters.cancelled,
            failed_rows=counters.failed,
            kv_bytes=worker.kv_bytes if worker else 0,
            prompt_tokens=counters.prompt_tokens,
            generated_tokens=counters.generated_tokens,
            memory_bytes=memory.active,
            memory_peak_bytes=memory.peak,
            memory_cache_bytes=memory.cache,
            memory_budget_bytes=self._loaded.budget_bytes,
            max_context=self.max_context,
            prompt_cache=self._cache.stats(),
            kv_budget_bytes=self._loaded.admission.kv_budget_bytes,
        )

    def close(self, timeout: float = 30.0) -> None:
        """End the thread after its current step; unfinished answers fail. Safe to call twice.

        Args:
            timeout: seconds to wait for the step.
        """
        if self._watchdog:
            self._watchdog.stop()
        self._refuse(_stopped())
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        atexit.unregister(self.close)

    def _settle(self, wanted: SamplingParams) -> SamplingParams:
        settled = merge_sampling(wanted, self.info.defaults)
        check_bias(settled, self.info.vocabulary_size)
        seed = settled.seed if settled.seed is not None else secrets.randbits(32)
        return replace(settled, seed=seed)

    def _start_thread(self) -> Future[LoadedModel]:
        started: Future[LoadedModel] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="mlxbun-engine", daemon=True
        )
        self._thread.start()
        return started

    def _find_trouble(self) -> str | None:
        """Say what is wrong with the thread and cannot be mended, or None. For the watchdog."""
        if not self._thread.is_alive() and not self._inbox.closed:
            return self._restart()
        # Without a worker the model is being loaded, which takes what it takes.
        worker = self._worker
        busy = worker is not None and bool(worker.rows or self._inbox.scheduler.waiting)
        beat = worker.beat if worker else None
        silent = self._stall.seconds(busy=busy, beat=beat, now=self._clock())
        if silent > self._options.stall_seconds:
            return f"The engine has made no progress for {silent:.0f} seconds."
        return None

    def _restart(self) -> str | None:
        """Put another thread in the place of a dead one; say why that is no use, or None."""
        if self._tokens_at_restart == self._counters.generated_tokens:
            return "The engine's thread has died again."
        self._tokens_at_restart = self._counters.generated_tokens
        _log.warning("the engine starts again")
        try:
            self._loaded = self._start_thread().result()
        # Whatever ended the new thread's start: nobody else is there to tell it.
        except BaseException as problem:
            return f"The engine's thread has died, and the model cannot be loaded again: {problem}"
        return None

    def _give_up(self, trouble: str) -> None:
        """Tell everybody: the thread will not."""
        _log.error(trouble)
        reason = EngineStopped(trouble, hint="Start the server again.")
        self._refuse(reason)
        for row in list(self._worker.rows.values()) if self._worker else ():
            row.generation.fail(reason)

    def _refuse(self, reason: EngineStopped) -> None:
        """Take no more, and tell every caller whose turn has not come."""
        rows, calls = self._inbox.close(reason)
        for row in rows:
            row.generation.fail(reason)
        for _, future in calls:
            future.set_exception(reason)

    # On the engine's thread.

    def _run(self, started: Future[LoadedModel]) -> None:
        try:
            loaded = self._bring_up()
        except BaseException as error:  # handed to the thread that waits in the constructor
            leave_thread()
            started.set_exception(error)
            return
        # Without the weights: they leave memory when the worker goes.
        started.set_result(replace(loaded, model=None))
        del loaded
        try:
            while not self._inbox.closed:
                self._work_or_rest()
        except BaseException:
            _log.exception("the engine's thread dies")
            self._tell_everybody(EngineFailed("The engine has failed.", hint="Try again."))
        finally:
            self._leave()

    def _tell_everybody(self, reason: EngineFailed) -> None:
        """Fail what runs and what waits; what comes next is for the thread after this one."""
        worker = self._worker
        for row in (*(worker.rows.values() if worker else ()), *self._inbox.take_waiting()):
            row.generation.fail(reason)
        for _, future in self._inbox.take_calls():
            future.set_exception(reason)

    def _leave(self) -> None:
        """End this thread's part in MLX: its arrays are of no use to another one."""
        worker, self._worker = self._worker, None
        try:
            if worker:
                for row in worker.rows.values():
                    row.generation.fail(_stopped())
                worker.close()
        finally:
            del worker
            self._cache.shrink(0)
            leave_thread()

    def _work_or_rest(self) -> None:
        """Take a turn, or wait for work; after a long wait let the model go."""
        worker = self._worker
        if worker is None:
            if self._inbox.wait(None) == "work":
                self._bring_back()
            return
        state = "work" if worker.rows else self._inbox.wait(self._options.keep_alive_seconds)
        if state == "work":
            worker.turn()
        elif state == "idle":
            worker.close()
            self._worker = None
            del worker
            self._cache.shrink(0)
            forget_arrays()

    def _bring_up(self) -> LoadedModel:
        """Load the model, rehearse, and set a worker on it."""
        loaded, runner = warm_up(
            self._load(), self._make_runner, batch=self._options.batch, shelf=self._shelf
        )
        self._batching = loaded.info.batching
        self._inbox.limit_rows(1 if runner.mode == "serial" else self._options.batch)
        self._worker = Worker(
            loaded,
            runner,
            inbox=self._inbox,
            cache=self._cache,
            counters=self._counters,
            preference=self._options.prefill,
            clock=self._clock,
        )
        return loaded

    def _bring_back(self) -> None:
        """Load the model again; when that fails, whoever waits is told, and the next one tries."""
        try:
            self._bring_up()
        except MlxbunError as problem:
            for row in self._inbox.take_waiting():
                row.generation.fail(EngineFailed(problem.message, hint=problem.hint))

    def _make_runner(self, loaded: LoadedModel, mode: BatchMode) -> BatchRunner:
        return BatchRunner(
            loaded.model,
            eos_ids=loaded.tokenizer.eos_ids,
            cap=self._options.batch,
            most_prefill_tokens=most_prefill(loaded),
            newline_ids=loaded.tokenizer.known(loaded.tokenizer.encode("\n", special=False)),
            mode=mode,
        )


def _stopped() -> EngineStopped:
    return EngineStopped("The engine has stopped.", hint="Start the server again.")
