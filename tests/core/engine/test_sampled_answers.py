"""How answers choose their tokens, through a running engine: alone, in company, after failures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.sample_utils import make_logits_processors
from mlx_lm.utils import load_model

from core.engine.decode import LeanGenerationBatch
from core.engine.engine import Engine
from core.engine.events import CallEnd, Finished, Position, ToolCallDelta
from core.engine.generation import Generation
from core.engine.output import OutputPipeline
from core.engine.reasoning import Channel, PlainText, ReasoningSplitter
from core.engine.request import SamplingParams, ToneCurve
from core.engine.scheduler import Row
from core.errors import BadRequest
from tests.core.engine.conftest import OpenEngine
from tests.core.engine.fakes import AllowOnly
from tests.core.engine.test_engine import (
    OUT,
    answer,
    eventually,
    failing,
    finish,
    request,
    worker_of,
)
from tests.tiny import EOS, byte_tokenizer

GREEDY = SamplingParams(temperature=0.0)
SHAPED = [
    replace(GREEDY, repetition_penalty=1.8),
    replace(GREEDY, repetition_penalty=1.4, repetition_context_size=0),
    replace(GREEDY, presence_penalty=2.0, presence_context_size=6),
    replace(GREEDY, presence_penalty=1.5, presence_context_size=0),
    replace(GREEDY, frequency_penalty=0.7),
    replace(GREEDY, frequency_penalty=0.3, frequency_context_size=0),
    replace(GREEDY, logit_bias=((65, 4.0), (66, 3.0), (EOS, -100.0))),
    replace(
        GREEDY,
        logit_bias=((EOS, -50.0),),
        repetition_penalty=1.3,
        presence_penalty=0.6,
        frequency_penalty=0.2,
        frequency_context_size=9,
    ),
]


def by_mlx_lm(
    folder: Path, text: str, params: SamplingParams, count: int
) -> list[tuple[int, np.ndarray]]:
    """Return tokens and log-probabilities by mlx-lm's own single-row loop, cut at EOS."""
    model, _ = load_model(folder)
    sizes = {
        name: 20 if (size := getattr(params, name)) is None else size
        for name in (f"{kind}_context_size" for kind in ("repetition", "presence", "frequency"))
    }
    processors = make_logits_processors(
        dict(params.logit_bias or ()) or None,
        repetition_penalty=params.repetition_penalty,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        **sizes,
    )
    steps = []
    prompt = mx.array(byte_tokenizer().encode(text).ids)
    loop = generate_step(prompt, model, max_tokens=count, logits_processors=processors)
    for token, logprobs in loop:
        steps.append((int(token), np.array(logprobs)))
        if token == EOS:
            break
    return steps


def shown(end: Finished) -> list[int]:
    assert end.logprobs is not None
    return [position.chosen.token for position in end.logprobs]


@pytest.mark.parametrize("params", SHAPED)
def test_shaped_answers_equal_mlx_lms_own_loop(
    open_tiny: OpenEngine, tiny_folder: Path, params: SamplingParams
) -> None:
    expected = by_mlx_lm(tiny_folder, "to be or not to be", params, 40)
    text = "to be or not to be"
    _, end = answer(open_tiny(), text, sampling=params, max_tokens=40, logprobs=4)
    assert shown(end) == [token for token, _ in expected]
    assert end.usage.completion_tokens == len(expected)
    for position, (token, logprobs) in zip(end.logprobs or (), expected, strict=True):
        assert position.chosen.raw == (b"<|im_end|>" if token == EOS else bytes([token]))
        assert abs(position.chosen.logprob - logprobs[token]) < 1e-5
        assert [each.token for each in position.top] == np.argsort(-logprobs)[:4].tolist()
        values = [each.logprob for each in position.top]
        assert np.allclose(values, np.sort(logprobs)[::-1][:4], atol=1e-5)


def test_rows_with_other_wishes_do_not_matter(open_tiny: OpenEngine, tiny_folder: Path) -> None:
    engine = open_tiny(batch=8)
    texts = [f"number {n} says " + "la" * n for n in range(len(SHAPED))]
    together = [
        engine.submit(request(text, sampling=params, max_tokens=30, logprobs=n % 3))
        for n, (text, params) in enumerate(zip(texts, SHAPED, strict=True))
    ]
    for n, (text, params, each) in enumerate(zip(texts, SHAPED, together, strict=True)):
        expected = by_mlx_lm(tiny_folder, text, params, 30)
        _, end = finish(each)
        assert shown(end) == [token for token, _ in expected]
        assert {len(position.top) for position in end.logprobs or ()} == {n % 3}


def test_nobody_gets_log_probabilities_unasked(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    asked = engine.submit(request("a", max_tokens=9, logprobs=0))
    assert answer(engine, "b", max_tokens=9)[1].logprobs is None
    end = finish(asked)[1]
    assert len(end.logprobs or ()) == end.usage.completion_tokens
    assert all(position.top == () for position in end.logprobs or ())


def test_a_bias_beyond_the_vocabulary_is_refused(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    assert engine.info.vocabulary_size == 259
    for token in (259, -1, 10**12):
        with pytest.raises(BadRequest, match=f"token {token}.*0 to 258") as refusal:
            answer(engine, sampling=replace(GREEDY, logit_bias=((token, 1.0),)))
        assert refusal.value.field == "logit_bias"


SEEDED = SamplingParams(
    temperature=1.1,
    top_p=0.95,
    min_p=0.01,
    top_k=60,
    xtc_probability=0.5,
    xtc_threshold=0.02,
    presence_penalty=0.4,
    frequency_penalty=0.1,
    repetition_penalty=1.1,
    tone_curve=ToneCurve(enabled=True),
    seed=11,
)


def test_a_seed_gives_the_same_answer_with_everything_on(open_tiny: OpenEngine) -> None:
    alone, end = answer(open_tiny(batch=1), "seed me", sampling=SEEDED, max_tokens=30, logprobs=0)
    engine = open_tiny()
    changes: list[dict[str, Any]] = [
        {"xtc_probability": 0.0},
        {"temperature": 0.3},
        {},
        {"top_k": 5},
        {"min_p": 0.2},
    ]
    others = [
        engine.submit(request(f"noise {n}", sampling=replace(SEEDED, seed=n, **change)))
        for n, change in enumerate(changes)
    ]
    company, again = answer(engine, "seed me", sampling=SEEDED, max_tokens=30, logprobs=0)
    for other in others:
        other.cancel()
    assert company == alone
    assert shown(end) == shown(again)


@pytest.mark.parametrize(
    "change",
    [{"tone_curve": None}, {"xtc_probability": 0.0}, {"min_p": 0.0, "top_k": 0, "top_p": 0.0}],
)
def test_everything_that_is_on_matters(open_tiny: OpenEngine, change: dict[str, Any]) -> None:
    engine = open_tiny()
    hot = replace(SEEDED, temperature=3.0)
    with_it = answer(engine, "seed me", sampling=hot, max_tokens=60)[0]
    assert answer(engine, "seed me", sampling=replace(hot, **change), max_tokens=60)[0] != with_it


def start(engine: Engine, text: str, constraint: AllowOnly | None, **fields: Any) -> Generation:
    """Let a row with a constraint of its own start."""
    prompt = byte_tokenizer().encode(text).ids
    generation = Generation(prompt_tokens=len(prompt), on_cancel=lambda _: engine._inbox.wake())
    settled = engine._settle(fields.pop("sampling", GREEDY))
    fields.setdefault("max_tokens", 30)
    fields.setdefault("logprobs", 0)
    row = Row(
        generation=generation,
        prompt=prompt,
        sampling=settled,
        output=OutputPipeline(
            decode=engine._loaded.tokenizer.decode, stops=(), parser=fields.pop("parser", None)
        ),
        constraint=constraint,
        **fields,
    )
    engine._inbox.put(row, running=0)
    return generation


def allowed_by_mlx_lm(folder: Path, text: str, tokens: set[int], count: int) -> list[int]:
    wall = mx.array([0.0 if n in tokens else -np.inf for n in range(259)])
    model, _ = load_model(folder)
    prompt = mx.array(byte_tokenizer().encode(text).ids)
    loop = generate_step(
        prompt, model, max_tokens=count, logits_processors=[lambda _, logits: logits + wall]
    )
    return [int(token) for token, _ in loop]


def test_constraints_hold_in_a_batch_with_others(open_tiny: OpenEngine, tiny_folder: Path) -> None:
    engine = open_tiny()
    plain = answer(engine, "free as a bird", max_tokens=30)[0]
    sets = [{65, 66, 67}, set(range(97, 123)), {200}, {48, 49, EOS + 1}]
    constraints = [AllowOnly(tokens) for tokens in sets]
    texts = [f"row {n} " + "z" * (11 * n) for n in range(4)]
    bound = [start(engine, text, each) for text, each in zip(texts, constraints, strict=True)]
    free = engine.submit(request("free as a bird", max_tokens=30))
    for text, tokens, constraint, each in zip(texts, sets, constraints, bound, strict=True):
        _, end = finish(each)
        # EOS is forbidden: only the limit ends the row.
        assert end.reason == "length"
        assert shown(end) == allowed_by_mlx_lm(tiny_folder, text, tokens, 30)
        assert constraint.heard == shown(end)
    assert finish(free)[0] == plain


@pytest.mark.parametrize("limit", [5, 30])
def test_a_complete_constraint_ends_the_row(open_tiny: OpenEngine, limit: int) -> None:
    """Its last token is counted, none follows, and at the limit it is a stop all the same."""
    constraint = AllowOnly({65, 66}, length=5)
    _, end = finish(start(open_tiny(), "count", constraint, max_tokens=limit))
    assert end.reason == "stop"
    assert end.usage.completion_tokens == len(constraint.heard) == 5


class CallAtOnce:
    """Reads a call from whatever comes first; at the limit the call is over if it `closes`."""

    def __init__(self, *, closes: bool) -> None:
        self._called = False
        self._closes = closes

    def push(self, text: str) -> list[ToolCallDelta]:
        first, self._called = not self._called, True
        return [ToolCallDelta(index=0, id="call_1", name="f", arguments="{}")] if first else []

    def flush(self, *, cut: bool) -> list[CallEnd]:
        return [CallEnd(complete=not cut or self._closes, repairs=("quotes",))]


@pytest.mark.parametrize(
    ("length", "closes", "reason"),
    [(4, False, "tool_calls"), (None, True, "tool_calls"), (None, False, "length")],
)
def test_an_answer_that_called_says_so_unless_a_call_was_cut(
    open_tiny: OpenEngine, length: int | None, closes: bool, reason: str
) -> None:
    constraint = AllowOnly({65, 66}, length=length)
    parser = CallAtOnce(closes=closes)
    events = list(start(open_tiny(), "call", constraint, max_tokens=9, parser=parser))
    told = [event for event in events if not isinstance(event, Position)]
    assert [type(event) for event in told] == [ToolCallDelta, Finished]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == reason
    assert events[-1].usage.repairs == ("quotes",)


def test_reasoning_tokens_are_counted(open_tiny: OpenEngine) -> None:
    parser = ReasoningSplitter(
        Channel(opening="<think>", closing="</think>"), PlainText(), inside=True
    )
    _, end = finish(start(open_tiny(), "think", AllowOnly({65, 66}), max_tokens=7, parser=parser))
    assert end.usage.reasoning_tokens == end.usage.completion_tokens == 7


def test_log_probabilities_are_those_before_a_constraint(
    open_tiny: OpenEngine, tiny_folder: Path
) -> None:
    _, end = finish(start(open_tiny(), "abc", AllowOnly({65}), max_tokens=1, logprobs=3))
    ((_, free),) = by_mlx_lm(tiny_folder, "abc", GREEDY, 1)
    (position,) = end.logprobs or ()
    assert position.chosen.token == 65
    assert abs(position.chosen.logprob - free[65]) < 1e-5
    assert [each.token for each in position.top] == np.argsort(-free)[:3].tolist()


@pytest.mark.parametrize("sampling", [SHAPED[-1], SEEDED])
def test_rows_go_on_after_a_failure_with_all_they_have(
    open_tiny: OpenEngine, monkeypatch: pytest.MonkeyPatch, sampling: SamplingParams
) -> None:
    engine = open_tiny()
    letters = set(range(32, 127))
    fields: dict[str, Any] = {"sampling": sampling, "max_tokens": 40, "logprobs": 2}

    def begin(constraint: AllowOnly | None) -> Generation:
        return start(engine, "before the storm", constraint, **fields)

    expected = [finish(begin(each))[1] for each in (AllowOnly(letters), None)]
    constraint = AllowOnly(letters)
    generations = [begin(constraint), begin(None)]
    eventually(lambda: all(len(row.answer) > 4 for row in list(worker_of(engine).rows.values())))
    failing(engine, monkeypatch, OUT)
    ends = [finish(generation)[1] for generation in generations]
    assert constraint.restarts == 1
    assert constraint.heard == shown(ends[0])
    for end, before in zip(ends, expected, strict=True):
        assert shown(end) == shown(before)
        after, whole = ([p.chosen.logprob for p in e.logprobs or ()] for e in (end, before))
        assert np.allclose(after, whole, atol=1e-4)


def python_work(function: Callable[[], object]) -> int:
    """Return how many lines of Python a call runs."""
    lines = 0

    def trace(_frame: object, event: str, _argument: object) -> object:
        nonlocal lines
        lines += event == "line"
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        function()
    finally:
        sys.settrace(None)
    return lines


def test_a_step_does_not_do_more_as_the_history_grows(
    open_tiny: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_tiny()
    step, work = LeanGenerationBatch._step, list[int]()

    def counted(batch: LeanGenerationBatch) -> Any:
        results = []
        work.append(python_work(lambda: results.append(step(batch))))
        return results[0]

    monkeypatch.setattr(LeanGenerationBatch, "_step", counted)
    sampling = replace(
        SHAPED[-1],
        repetition_context_size=0,
        presence_context_size=0,
        frequency_context_size=0,
    )
    answer(engine, "on and on", sampling=sampling, max_tokens=400, logprobs=1)
    assert len(work) >= 400
    assert median(work[300:]) <= median(work[5:100])


def test_plain_rows_compute_nothing_that_nobody_asked_for(
    open_tiny: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_tiny()
    calls: list[str] = []
    for name in ("logsumexp", "argpartition", "softmax", "concatenate"):
        original = getattr(mx, name)

        def spy(*args: Any, name: str = name, original: Any = original, **kwargs: Any) -> Any:
            calls.append(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(mx, name, spy)
    answer(engine, "plain", max_tokens=20)
    assert calls.count("logsumexp") == calls.count("argpartition") == 0
    assert calls.count("softmax") == 0
    answer(engine, "plain", max_tokens=20, logprobs=1)
    assert calls.count("logsumexp") >= 20
