"""What runs on the engine's thread: turn after turn, one step each.

A turn serves calls, lets cancelled rows go, admits waiting ones within the memory, computes one
step and hands out its tokens. This module knows rows and events; arrays are the runner's.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from core.engine.batch import BatchRunner, Step, StepToken, Taken
from core.engine.cache.snapshot import KvSnapshot
from core.engine.cache.store import Hit
from core.engine.device import is_out_of_memory
from core.engine.events import (
    Finished,
    FinishReason,
    Lane,
    Position,
    Span,
    Timing,
    TokenLogprob,
    Usage,
)
from core.engine.pacing import Pacing
from core.engine.scheduler import Row, cut
from core.errors import EngineFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from core.engine.cache.store import PromptCache
    from core.engine.choices import Family
    from core.engine.inbox import Inbox
    from core.engine.loader import LoadedModel
    from core.engine.logprobs import Reading
    from core.engine.pacing import Preference
    from core.fit.admission import Admission

_log = logging.getLogger("mlxbun.engine")

# Prompt tokens that one step computes over all rows when nobody waits. On a CPU mlx-lm's 2,048 is
# slower than 512 (measured, SmolLM2-135M float32).
_MOST_PREFILL_CPU = 512
_MOST_PREFILL_GPU = 2048


@dataclass(kw_only=True)
class Counters:
    """What happened since the start. Written by the engine's thread only."""

    finished: int = 0
    """Answers that came to their end."""
    cancelled: int = 0
    """Answers whose caller left."""
    failed: int = 0
    """Answers that ended with an error."""
    prompt_tokens: int = 0
    """Prompt tokens computed."""
    generated_tokens: int = 0
    """Tokens generated."""


class Worker:
    """The rows that run on one loaded model.

    Attributes:
        rows: the admitted rows by number, negative for those that are not in the batch yet: they
            wait for another answer's prompt; other threads only read its length.
        counters: what happened since the start.
        kv_bytes: KV of the running rows after the last turn.
        beat: clock at the last sign of life, in seconds.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        runner: BatchRunner,
        *,
        inbox: Inbox,
        cache: PromptCache,
        counters: Counters,
        preference: Preference,
        clock: Callable[[], float],
    ) -> None:
        self.rows: dict[int, Row] = {}
        self.counters = counters
        self.kv_bytes = 0
        self.beat = clock()
        self._runner = runner
        self._admission: Admission = loaded.admission
        self._threads = loaded.threads
        self._inbox = inbox
        self._cache = cache
        self._clock = clock
        self._token_bytes = loaded.tokenizer.token_bytes
        self._families: set[Family] = set()  # those whose KV is held
        self._numbers = count(-1, -1)  # of rows that are not in the batch yet
        self._pacing = Pacing(preference=preference, most=most_prefill(loaded))
        self._lane: Lane = loaded.info.batching.lane
        self._tokens_at_failure = -1
        self._shares = loaded.info.shares

    def turn(self) -> None:
        """Take one turn. Whatever a step raises ends answers, not the engine."""
        self.beat = self._clock()
        self._serve_calls()
        try:
            self._yield_cores()
            self._drop_cancelled()
            self._admit()
            self._release_families()
            if self.rows:
                self._step()
            self.kv_bytes = self._runner.kv_bytes + self._family_bytes
        except Exception as error:
            _log.exception("a step failed")
            self._recover(error)
        self._cache.make_room(self.kv_bytes, self._admission.room_bytes)
        if not self.rows and not self._inbox.scheduler.waiting:
            self._runner.rest()
        self.beat = self._clock()

    def close(self) -> None:
        """Finish the step in flight and forget the rows."""
        self.rows.clear()
        self._forget_families()
        self._runner.close()

    def _serve_calls(self) -> None:
        for work, future in self._inbox.take_calls():
            _run(work, future)

    def _yield_cores(self) -> None:
        """Use as many threads as others leave cores, where that is ours to decide."""
        if self._threads and (count := self._threads.wanted()):
            self._runner.settle()
            self._threads.apply(count)

    def _drop_cancelled(self) -> None:
        self.counters.cancelled += len(self._inbox.take_cancelled())
        # Those that wait for a prompt first: they are not to compute it instead.
        for number in sorted(n for n, row in self.rows.items() if row.generation.cancelled):
            self._take_out(number)
            self.counters.cancelled += 1

    def _admit(self) -> None:
        while row := self._inbox.next_row(len(self.rows), self._may_start):
            row.admitted_at = self._clock()
            self._start(self._let_wait(row))
            row.start_seconds = self._clock() - row.admitted_at

    def _may_start(self, row: Row) -> bool:
        running = [(each.length, each.to_come) for each in self.rows.values()]
        return self._admission.fits((row.length, row.to_come), running)

    def _let_wait(self, row: Row) -> int:
        """Give a row a place among those that are not in the batch yet, and return its number.

        It keeps the place until it is in the batch, so that no failure in between loses it.
        """
        number = next(self._numbers)
        self.rows[number] = row
        return number

    def _start(self, number: int) -> None:
        """Put a row into the batch, unless it waits until another answer's prompt is computed.

        A row that starts again after a failed step goes on where it was.
        """
        row = self.rows[number]
        family = row.family
        if family is None:
            self._insert(number, self._look_up(row, row.tokens))
        elif family.kv:
            caches = family.kv.prefix(family.shared, family.shared)
            row.cached = row.cached if row.answer else family.cached
            self._insert(number, Hit(length=family.shared, caches=caches))
        elif family.leader is None:
            self._lead(number, family)

    def _look_up(self, row: Row, tokens: list[int]) -> Hit | None:
        """Return what the cache knows of a row's beginning, short of the last of `tokens`."""
        hit = self._cache.lookup(row.namespace, tokens) if self._cache.enabled else None
        if not row.answer:
            row.cached = hit.length if hit else 0
        return hit

    def _insert(self, number: int, hit: Hit | None, *boundaries: int) -> None:
        """Put a row into the batch, where it has another number.

        Args:
            number: of its place among those that wait.
            hit: what is known of its beginning.
            boundaries: more lengths at which its KV is to be taken.
        """
        row = self.rows[number]
        tokens, known = row.tokens, hit.length if hit else 0
        began = self._clock()
        inserted = self._runner.insert(
            cut(tokens, known, tuple(sorted({*row.boundaries, *boundaries}))),
            max_tokens=row.to_come,
            sampling=row.sampling,
            drawn=len(row.answer),
            cached=tokens[:known],
            caches=hit.caches if hit else None,
            constraint=row.constraint,
            logprobs=row.logprobs,
        )
        row.trail.setup = Span(began=began, seconds=self._clock() - began)
        del self.rows[number]
        self.rows[inserted] = row
        row.pending = False
        self.counters.prompt_tokens += len(tokens) - known

    def _lead(self, number: int, family: Family) -> None:
        """Let a row compute the prompt for all members of its family."""
        row = self.rows[number]
        family.leader = row
        hit = self._look_up(row, row.prompt)
        family.cached = hit.length if hit else 0
        if hit and hit.length == family.shared:  # there is nothing left to compute
            self._share(family, hit.caches)
        else:
            self._insert(number, hit, family.shared)

    def _share(self, family: Family, caches: list[Any]) -> None:
        """Hand the KV of a prompt to the members that wait for it, and to those to come."""
        family.kv = KvSnapshot(caches)
        self._families.add(family)
        self._start_members(family)

    def _start_members(self, family: Family) -> None:
        """Start the members that wait for the prompt."""
        for number in [n for n, row in self.rows.items() if n < 0 and row.family is family]:
            self._start(number)

    def _release_families(self) -> None:
        """Let the KV of prompts go that every answer has."""
        for family in [family for family in self._families if family.complete]:
            family.forget()
            self._families.remove(family)

    def _forget_families(self) -> None:
        """Let the KV of all prompts go: it belongs to a thread that ends or a step that failed."""
        for family in self._families:
            family.forget()
        self._families.clear()

    @property
    def _family_bytes(self) -> int:
        return sum(family.kv.nbytes for family in self._families if family.kv)

    def _step(self) -> None:
        began, decoding = self._clock(), self._runner.decoding
        step = self._runner.step(self._pacing.tokens(decoding=decoding))
        seconds = self._clock() - began
        self._pacing.observe(seconds=seconds, decoding=decoding, prefilled=step.prefilled)
        self._note(step, began, seconds)
        for number in step.boundaries:
            began, row = self._clock(), self.rows[number]
            self._reach(row, self._runner.take(number))
            row.trail.kept.append(Span(began=began, seconds=self._clock() - began))
        for token in step.tokens:
            self._deliver(token)

    def _note(self, step: Step, began: float, seconds: float) -> None:
        """Note a step in the trails of the rows whose prompts it computed."""
        for number, tokens in step.chunks.items():
            chunk = Span(began=began, seconds=seconds, tokens=tokens)
            self.rows[number].trail.chunks.append(chunk)
        for number in step.started:
            self.rows[number].trail.prompt_done_at = began

    def _reach(self, row: Row, taken: Taken) -> None:
        """Do what a boundary in a row's prompt is for."""
        family = row.family
        if len(taken.tokens) in row.boundaries:
            self._keep(row, taken)
        if family and family.leader is row and len(taken.tokens) == family.shared:
            self._share(family, taken.caches)

    def _keep(self, row: Row, taken: Taken) -> None:
        """Put what a row has computed into the prompt cache."""
        if self._cache.enabled:
            self._cache.store(row.namespace, taken.tokens, KvSnapshot(taken.caches))

    def _take_out(self, number: int) -> None:
        """Take a row out before its end; what it has computed serves the next one like it."""
        row = self.rows.pop(number)
        if number < 0:
            return
        self._keep(row, self._runner.take(number))
        self._runner.remove(number)
        if row.family and row.family.leader is row and not row.family.kv:
            row.family.leader = None
            self._start_members(row.family)

    def _deliver(self, token: StepToken) -> None:
        """Turn a token into events; end the row when the token or its text ends it."""
        row = self.rows[token.row]
        row.answer.append(token.token)
        if token.reading:
            position = self._position(row, token.token, token.reading)
            row.positions.append(position)
            row.generation.put(position)
        self.counters.generated_tokens += 1
        if len(row.answer) == 1:
            row.first_token_at = self._clock()
        if not (token.eos or (token.complete and token.token in row.stop_tokens)):
            for event in row.output.push(token.token):
                row.generation.put(event)
        if token.taken is not None:
            del self.rows[token.row]
            self._keep(row, token.taken)
        elif row.output.stopped:
            self._take_out(token.row)
        else:
            return
        self._finish(row, ended=token.eos or token.complete)

    def _position(self, row: Row, token: int, reading: Reading) -> Position:
        """Name the tokens of which a step has told the log-probabilities."""
        return Position(
            chosen=self._logprob(token, reading.chosen),
            top=tuple(self._logprob(*pair) for pair in reading.top),
            offset=row.output.characters,
        )

    def _logprob(self, token: int, logprob: float) -> TokenLogprob:
        return TokenLogprob(token=token, raw=self._token_bytes(token), logprob=logprob)

    def _finish(self, row: Row, *, ended: bool) -> None:
        for event in row.output.flush(ended=ended):
            row.generation.put(event)
        self.counters.finished += 1
        logprobs = None if row.logprobs is None else tuple(row.positions)
        reason = _reason(row, ended=ended)
        row.generation.put(Finished(reason=reason, usage=self._usage(row), logprobs=logprobs))

    def _usage(self, row: Row) -> Usage:
        """Tell what a row has taken."""
        return Usage(
            prompt_tokens=len(row.prompt),
            completion_tokens=len(row.answer),
            cached_tokens=row.cached,
            lane=self._lane,
            prefill_seconds=row.first_token_at - row.admitted_at,
            decode_seconds=self._clock() - row.first_token_at,
            reasoning_tokens=row.output.reasoning_tokens,
            repairs=tuple(sorted(row.output.repairs)),
            timing=self._timing(row),
        )

    def _timing(self, row: Row) -> Timing:
        """Record when a row passed each stage."""
        trail, lookup = row.trail, row.start_seconds
        if trail.setup:  # at once, or when another row had computed the prompt
            lookup = min(lookup, trail.setup.began - row.admitted_at)
        return Timing(
            queued=row.queued_at,
            admitted=row.admitted_at,
            first_token=row.first_token_at,
            lookup_seconds=lookup,
            placement=trail.placement,
            setup=trail.setup,
            chunks=tuple(trail.chunks),
            kept=tuple(trail.kept),
            prompt_done=trail.prompt_done_at or None,
            shares=self._shares,
        )

    def _recover(self, error: Exception) -> None:
        """Go on after a failed step.

        Out of memory: let the kept prompts go and start the rows again where they were; when that
        fails before any of them got a token, the longest one is given up. Anything else ends all.
        """
        rows, self.rows = list(self.rows.values()), {}
        self._runner.reset()
        self._forget_families()
        self.kv_bytes = 0
        given_up = rows
        if is_out_of_memory(error):
            self._cache.shrink(0)
            self._runner.rest()
            fruitless = self._tokens_at_failure == self.counters.generated_tokens
            given_up = [max(rows, key=lambda row: row.length)] if rows and fruitless else []
            self._tokens_at_failure = self.counters.generated_tokens
        reason = " ".join(str(error).split()) or type(error).__name__
        for row in given_up:
            row.pending = False
            row.generation.fail(EngineFailed(f"The generation failed: {reason}"))
            self.counters.failed += 1
        self._start_again([row for row in rows if not any(row is each for each in given_up)])

    def _start_again(self, rows: list[Row]) -> None:
        """Go on with rows after a failed step, of which their constraints may have heard more."""
        for row in rows:
            row.pending = True
            if row.family:
                row.family.forget()
            if row.constraint:
                row.constraint.restart(row.answer)
        for number in [self._let_wait(row) for row in rows]:
            if number in self.rows:  # unless a member of its family has started it
                self._start(number)


def most_prefill(loaded: LoadedModel) -> int:
    """Return the prompt tokens that one step may compute when nobody waits."""
    return _MOST_PREFILL_CPU if loaded.compute.device == "cpu" else _MOST_PREFILL_GPU


def _reason(row: Row, *, ended: bool) -> FinishReason:
    """Return why a row has ended.

    Args:
        row: the row.
        ended: whether EOS or a complete constraint ended it.
    """
    output = row.output
    if output.called and (ended or not output.cut):
        return "tool_calls"
    return "stop" if ended or output.stopped else "length"


def _run(work: Callable[[], Any], future: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # it belongs to whoever asked
        future.set_exception(error)
