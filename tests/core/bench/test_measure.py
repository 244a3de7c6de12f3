"""Measuring a real engine on a tiny model: every figure, and what stands in its way."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.bench.measure import Sample, measure
from core.bench.plan import Limits, Plan, Wishes, make_plan
from core.engine.engine import Engine
from core.engine.request import GenerationRequest, TextPrompt
from core.errors import EngineStopped
from core.progress import Progress
from tests.core.engine.conftest import OpenEngine, open_tiny, tiny_folder
from tests.tiny import llama_config, make_model

__all__ = ["open_tiny", "tiny_folder"]

NO_TOKEN = 10_000
CHOSEN_NOW_AND_THEN = 258


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = llama_config(eos_token_id=NO_TOKEN)
    return make_model(tmp_path_factory.mktemp("models") / "endless", config=config)


def plan_for(engine: Engine, *, prompt_cache: bool = True, **wishes: Any) -> Plan:
    given: dict[str, Any] = {"prompts": (32, 100), "rows": (1, 3), "tokens": 6, "repeats": 2}
    limits = Limits(
        context=engine.max_context, batch=engine.stats().batch, prompt_cache=prompt_cache
    )
    return make_plan(Wishes(**(given | wishes)), limits)


def test_every_figure_gets_a_sample_a_round(open_tiny: OpenEngine, endless: Path) -> None:
    engine = open_tiny(endless)
    notes: list[str] = []
    reports: list[Progress] = []
    plan = plan_for(engine)
    samples = list(measure(engine, plan, on_progress=reports.append, on_note=notes.append))
    counted = [(sample.kind, sample.size) for sample in samples]
    prompts = [(kind, size) for kind in ("prefill", "ttft_cold", "ttft_warm") for size in (32, 100)]
    assert {key: counted.count(key) for key in counted} == dict.fromkeys(
        [*prompts, ("decode", 1), ("decode", 3)], 2
    )
    assert all(sample.value > 0 for sample in samples)
    assert notes == []
    assert [(report.done, report.total) for report in reports] == [(n, 8) for n in range(9)]


def test_cold_prompts_are_new_and_warm_ones_known(open_tiny: OpenEngine, endless: Path) -> None:
    engine = open_tiny(endless)
    plan = plan_for(engine, prompts=(64,), rows=(1,), repeats=3)
    list(measure(engine, plan))
    known = engine.stats().prompt_cache.hit_tokens
    # All but the last token of three warm prompts, and a shared first word now and then.
    assert 3 * 63 <= known < 3 * 63 + 40


def test_without_a_prompt_cache_there_is_no_warm_figure(
    open_tiny: OpenEngine, endless: Path
) -> None:
    engine = open_tiny(endless, prompt_cache_bytes=0)
    samples = list(measure(engine, plan_for(engine, prompt_cache=False)))
    assert {sample.kind for sample in samples} == {"prefill", "ttft_cold", "decode"}


def test_a_cache_that_does_not_serve_is_noted_once(open_tiny: OpenEngine, endless: Path) -> None:
    engine = open_tiny(endless, prompt_cache_bytes=1000)
    notes: list[str] = []
    list(measure(engine, plan_for(engine, prompts=(100,)), on_note=notes.append))
    assert len(notes) == 1
    assert "kept 0 of 100 tokens" in notes[0]


def test_rows_that_the_memory_does_not_hold_are_not_measured(
    open_tiny: OpenEngine, endless: Path
) -> None:
    engine = open_tiny(endless)
    admission = engine._loaded.admission
    row = admission.kv.row_bytes(32 + 40)
    tight = replace(admission, room_bytes=4 * row)
    assert engine._worker is not None
    engine._worker._admission = tight
    notes: list[str] = []
    plan = plan_for(engine, rows=(1, 8), tokens=40)
    samples = list(measure(engine, plan, on_note=notes.append))
    assert {sample.size for sample in samples if sample.kind == "decode"} == {1}
    assert notes == ["The memory does not hold 8 rows together: not measured."]


def test_a_model_that_ends_at_once_has_no_decode_figure(
    open_tiny: OpenEngine, tmp_path: Path
) -> None:
    config = llama_config(eos_token_id=list(range(259)))
    engine = open_tiny(make_model(tmp_path / "mute", config=config))
    notes: list[str] = []
    samples = list(measure(engine, plan_for(engine), on_note=notes.append))
    assert {sample.kind for sample in samples} == {"prefill", "ttft_cold", "ttft_warm"}
    assert notes == ["The model ends its answers at once: decoding cannot be measured."]


@pytest.mark.parametrize("eos", [NO_TOKEN, CHOSEN_NOW_AND_THEN])
def test_decode_counts_steps_in_which_all_rows_ran(
    open_tiny: OpenEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eos: int
) -> None:
    """A step that takes 20 ms makes 50 tokens a second for each row."""
    engine = open_tiny(make_model(tmp_path / "model", config=llama_config(eos_token_id=eos)))
    worker = engine._worker
    assert worker is not None
    decoding: list[int] = []
    step = worker._runner.step

    def counted(prefill_tokens: int) -> Any:
        decoding.append(worker._runner.decoding)
        return step(prefill_tokens)

    monkeypatch.setattr(worker._runner, "step", counted)
    monkeypatch.setattr(worker, "_clock", lambda: 0.02 * len(decoding))
    samples = measure(engine, plan_for(engine, rows=(3,), tokens=16))
    rates = [sample.value for sample in samples if sample.kind == "decode"]
    assert rates == [pytest.approx(150)] * 2
    begins_and_ends_together = set(decoding) == {0, 3}
    assert begins_and_ends_together == (eos == NO_TOKEN)


def test_stopping_in_the_middle_leaves_the_engine_usable(
    open_tiny: OpenEngine, endless: Path
) -> None:
    engine = open_tiny(endless)
    taken: list[Sample] = []
    for sample in (running := measure(engine, plan_for(engine))):
        taken.append(sample)
        if len(taken) == 4:
            break
    running.close()  # type: ignore[attr-defined]
    request = GenerationRequest(prompt=TextPrompt(text="hello"), max_tokens=2)
    assert list(engine.submit(request))
    assert threading.active_count() < 50
    assert len(taken) == 4


def test_an_engine_that_stops_ends_the_measuring(open_tiny: OpenEngine, endless: Path) -> None:
    engine = open_tiny(endless)
    samples = measure(engine, plan_for(engine))
    next(samples)
    engine.close()
    with pytest.raises(EngineStopped):
        list(samples)
