"""Where the time of one request went: one JSON line a request, for whoever switched it on.

Times are milliseconds on the monotonic clock since the request came. A phase is recorded only where
it was measured. Knows no protocol; switched off, there is no `Trace` at all.
"""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from core.engine.events import Span, Timing, Usage

HEADER = "x-mlx-bun-trace-id"
VARIABLE = "MLXBUN_P2R_TRACE"

Outcome = Literal["success", "error", "abort"]

_OFF = nullcontext()

# What a record calls the phases that a request can fail in before the engine has it.
_STAGES = {"request.body_parse": "body_parse", "request.prompt_prepare": "prepare_completion"}


def tracing_wanted(environ: Mapping[str, str]) -> bool:
    """Say whether requests are to be traced."""
    return environ.get(VARIABLE) == "1"


def phase(trace: Trace | None, name: str) -> AbstractContextManager[None]:
    """Return what measures a phase, or does nothing without a trace."""
    return trace.phase(name) if trace else _OFF


class Trace:
    """The phases of one request. Lives on the event loop.

    Attributes:
        outcome: how the request ends, as far as is known.
    """

    def __init__(
        self,
        *,
        trace_id: str | None,
        request_id: str,
        route: str,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Begin.

        Args:
            trace_id: the client's name for it, or None.
            request_id: ours.
            route: the path.
            tell: takes the finished line.
            clock: a monotonic clock in seconds, the engine's.
        """
        self.outcome: Outcome = "abort"
        self._failed_in: str | None = None
        self._clock = clock
        self._began = clock()
        self._tell = tell
        self._told = False
        self._record = {
            "version": 1,
            "traceId": trace_id or request_id,
            "requestId": request_id,
            "route": route,
            "clock": "monotonic-ms",
        }
        self._events: list[dict[str, Any]] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure a phase; one that raises is recorded too."""
        began = self._clock()
        try:
            yield
        except BaseException:
            self._failed_in = name
            raise
        finally:
            self.add(name, began, self._clock() - began)

    def mark(self, name: str) -> None:
        """Record a moment, the first time that it comes."""
        if not any(event["phase"] == name for event in self._events):
            self.add(name, self._clock(), 0.0)

    def add(self, name: str, began: float, seconds: float, **attributes: Any) -> None:
        """Record a phase that somebody else measured.

        Args:
            name: of the phase.
            began: when, on the clock.
            seconds: how long it took.
            attributes: what to know about it.
        """
        event = {
            "phase": name,
            "startMs": _milliseconds(began - self._began),
            "durationMs": _milliseconds(seconds),
        }
        self._events.append({**event, "attributes": attributes} if attributes else event)

    def add_engine(self, usage: Usage) -> None:
        """Record the phases that the engine measured."""
        timing = usage.timing
        if timing is None:
            return
        self._add_span("completion.placement", timing.placement)
        self.add("engine.admission_wait", timing.queued, timing.admitted - timing.queued)
        if timing.lookup_seconds is not None:
            self.add(
                "cache.lookup_restore",
                timing.admitted,
                timing.lookup_seconds,
                cachedTokens=usage.cached_tokens,
            )
        self._add_prefill(usage, timing)

    def _add_prefill(self, usage: Usage, timing: Timing) -> None:
        began = timing.admitted + (timing.lookup_seconds or 0.0)
        done = timing.first_token if timing.prompt_done is None else timing.prompt_done
        self.add("prefill.total", began, done - began, promptTokens=usage.prompt_tokens)
        self._add_span("prefill.batch_setup", timing.setup)
        for chunk in timing.chunks:
            self._add_span("prefill.chunk", chunk)
        if timing.prompt_done is not None:
            # Always there, so that the parts can be added up: mostly nothing has to be kept.
            kept = sum(span.seconds for span in timing.kept)
            first = timing.kept[0].began if timing.kept else done
            self.add("prefill.kv_maintenance", first, kept)
            self._add_token_zero(timing, done)

    def _add_token_zero(self, timing: Timing, began: float) -> None:
        seconds = timing.first_token - began
        self.add("token_zero.total", began, seconds)
        if timing.shares is None:
            return
        for name in ("forward", "head", "sample"):
            share = seconds * getattr(timing.shares, name)
            self.add(f"token_zero.{name}", began, share, derived=True)
            began += share

    def _add_span(self, name: str, span: Span | None) -> None:
        if span is not None:
            more = {} if span.tokens is None else {"tokens": span.tokens}
            self.add(name, span.began, span.seconds, **more)

    def finish(self) -> None:
        """Tell the record, the first time that this is called."""
        if self._told:
            return
        self._told = True
        record: dict[str, Any] = {
            **self._record,
            "outcome": self.outcome,
            "totalMs": _milliseconds(self._clock() - self._began),
            "events": sorted(self._events, key=lambda event: float(event["startMs"])),
        }
        stage = _STAGES.get(self._failed_in or "")
        if self.outcome == "error" and stage:
            record["attributes"] = {"stage": stage}
        self._tell(f"[p2r] {json.dumps(record, ensure_ascii=False)}")


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
