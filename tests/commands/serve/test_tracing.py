"""A traced request leaves one line that says where its time went; others leave nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from commands.serve.tracing import Trace, phase, tracing_wanted
from core.engine.events import Shares, Span, Timing
from core.errors import EngineFailed, QueueFull
from tests.commands.serve.fake_engine import FakeEngine, Script
from tests.commands.serve.live import live_server, serve_options, wait_until
from tests.commands.serve.openai_schemas import CheckedClient

CHAT = "/v1/chat/completions"
GOOD: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
ALWAYS = {"request.body_parse", "request.prompt_prepare", "completion.total"}
WRITES = {"response.first_write", "response.final_write"}


class Traced:
    """A server that traces, and what it told."""

    def __init__(self, engine: FakeEngine, client: httpx.Client, lines: list[str]) -> None:
        self.engine, self.client, self._lines = engine, client, lines

    def record(self) -> dict[str, Any]:
        """Return the one record of a request."""
        wait_until(lambda: self._lines)
        (line,) = self._lines
        self._lines.clear()
        assert line.startswith("[p2r] ")
        record: dict[str, Any] = json.loads(line.removeprefix("[p2r] "))
        return record


@pytest.fixture
def traced() -> Iterator[Traced]:
    engine, lines = FakeEngine(), list[str]()
    options = replace(serve_options(), trace=lines.append)
    with (
        live_server(engine, options=options) as base,
        CheckedClient(base_url=base, timeout=20, trust_env=False) as client,
    ):
        yield Traced(engine, client, lines)


def _phases(record: dict[str, Any]) -> set[str]:
    starts = [event["startMs"] for event in record["events"]]
    assert starts == sorted(starts)
    assert all(event["durationMs"] >= 0 for event in record["events"])
    assert all(event["durationMs"] == 0 for event in record["events"] if event["phase"] in WRITES)
    return {event["phase"] for event in record["events"]}


@pytest.mark.parametrize("stream", [False, True])
def test_a_success(traced: Traced, stream: bool) -> None:
    answer = traced.client.post(
        CHAT, json={**GOOD, "stream": stream}, headers={"x-mlx-bun-trace-id": "mine"}
    )
    assert "x-mlx-bun-trace-id" not in answer.headers
    record = traced.record()
    assert record["version"] == 1
    assert record["clock"] == "monotonic-ms"
    assert record["traceId"] == "mine"
    assert record["requestId"] in answer.text
    assert record["route"] == CHAT
    assert record["outcome"] == "success"
    assert record["totalMs"] > 0
    assert "attributes" not in record
    assert _phases(record) == ALWAYS | WRITES


def test_a_continuation_without_a_name(traced: Traced) -> None:
    traced.client.post("/v1/completions", json={"prompt": "a"})
    record = traced.record()
    assert record["route"] == "/v1/completions"
    assert record["traceId"] == record["requestId"]
    assert record["requestId"].startswith("cmpl-")


def test_what_the_engine_measured(traced: Traced) -> None:
    now = time.perf_counter()
    timing = Timing(queued=now, admitted=now + 1, first_token=now + 3, lookup_seconds=0.5)
    traced.engine.script = Script(timing=timing)
    traced.client.post(CHAT, json=GOOD)
    events = {event["phase"]: event for event in traced.record()["events"]}
    assert events["engine.admission_wait"]["durationMs"] == pytest.approx(1000, abs=0.01)
    assert events["cache.lookup_restore"]["durationMs"] == 500
    assert events["cache.lookup_restore"]["attributes"] == {"cachedTokens": 2}
    assert events["prefill.total"]["durationMs"] == pytest.approx(1500, abs=0.01)


def test_every_phase_of_the_engine(traced: Traced) -> None:
    now = time.perf_counter()
    timing = Timing(
        queued=now,
        admitted=now + 1,
        first_token=now + 6,
        lookup_seconds=0.5,
        placement=Span(began=now - 1, seconds=0.25),
        setup=Span(began=now + 1.5, seconds=0.5),
        chunks=(
            Span(began=now + 2, seconds=1, tokens=3),
            Span(began=now + 3, seconds=0.5, tokens=2),
        ),
        kept=(Span(began=now + 3.5, seconds=0.25),),
        prompt_done=now + 4,
        shares=Shares(forward=0.5, head=0.375, sample=0.125),
    )
    traced.engine.script = Script(timing=timing)
    traced.client.post(CHAT, json=GOOD)
    record = traced.record()
    engine = ("completion.placement", "engine.", "cache.", "prefill.", "token_zero.")
    events = [each for each in record["events"] if each["phase"].startswith(engine)]
    spent = [(each["phase"], round(each["durationMs"])) for each in events]
    assert spent == [
        ("completion.placement", 250),
        ("engine.admission_wait", 1000),
        ("cache.lookup_restore", 500),
        ("prefill.total", 2500),
        ("prefill.batch_setup", 500),
        ("prefill.chunk", 1000),
        ("prefill.chunk", 500),
        ("prefill.kv_maintenance", 250),
        ("token_zero.total", 2000),
        ("token_zero.forward", 1000),
        ("token_zero.head", 750),
        ("token_zero.sample", 250),
    ]
    assert [each.get("attributes") for each in events if each["phase"] == "prefill.chunk"] == [
        {"tokens": 3},
        {"tokens": 2},
    ]
    assert {each["phase"] for each in events if each.get("attributes", {}).get("derived")} == {
        "token_zero.forward",
        "token_zero.head",
        "token_zero.sample",
    }


@pytest.mark.parametrize(
    ("body", "script", "stage"),
    [
        ({}, Script(), "body_parse"),
        (GOOD, Script(refuse=QueueFull("Full.")), "prepare_completion"),
        (GOOD, Script(error=EngineFailed("It broke.")), None),
        ({**GOOD, "stream": True}, Script(error=EngineFailed("It broke.")), None),
    ],
)
def test_an_error(traced: Traced, body: dict[str, Any], script: Script, stage: str | None) -> None:
    traced.engine.script = script
    traced.client.post(CHAT, json=body)
    record = traced.record()
    assert record["outcome"] == "error"
    assert record.get("attributes") == ({"stage": stage} if stage else None)


def test_a_client_that_leaves_a_stream(traced: Traced) -> None:
    traced.engine.script = Script(endless=True, delay=0.01)
    with traced.client.stream("POST", CHAT, json={**GOOD, "stream": True}) as answer:
        next(answer.iter_bytes())
    assert traced.record()["outcome"] == "abort"


def test_a_client_that_does_not_wait(traced: Traced) -> None:
    traced.engine.script = Script(endless=True, delay=0.01)
    with pytest.raises(httpx.ReadTimeout):
        traced.client.post(CHAT, json=GOOD, timeout=0.3)
    record = traced.record()
    assert record["outcome"] == "abort"
    assert "attributes" not in record


def test_only_one_value_switches_it_on() -> None:
    assert tracing_wanted({"MLXBUN_P2R_TRACE": "1"})
    assert not tracing_wanted({"MLXBUN_P2R_TRACE": "0"})
    assert not tracing_wanted({})


def test_without_a_trace_a_phase_is_nothing() -> None:
    assert phase(None, "a") is phase(None, "b")


def test_a_record_is_told_once() -> None:
    told: list[str] = []
    ticks = iter(range(100))
    trace = Trace(
        trace_id=None, request_id="r", route="/", tell=told.append, clock=lambda: next(ticks)
    )
    with trace.phase("a"):
        pass
    trace.mark("b")
    trace.mark("b")
    trace.outcome = "success"
    trace.finish()
    trace.finish()
    (line,) = told
    assert json.loads(line.removeprefix("[p2r] ")) == {
        "version": 1,
        "traceId": "r",
        "requestId": "r",
        "route": "/",
        "clock": "monotonic-ms",
        "outcome": "success",
        "totalMs": 4000.0,
        "events": [
            {"phase": "a", "startMs": 1000.0, "durationMs": 1000.0},
            {"phase": "b", "startMs": 3000.0, "durationMs": 0.0},
        ],
    }
