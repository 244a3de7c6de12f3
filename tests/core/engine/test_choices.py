"""Several answers to one prompt: as good as single ones, for the price of one prompt."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.engine.batch import BatchRunner
from core.engine.choices import choice_seed
from core.engine.engine import Engine
from core.engine.events import TextDelta
from core.engine.generation import Generation
from core.engine.loader import load
from core.engine.request import GenerationRequest, SamplingParams, TextPrompt
from core.errors import EngineFailed, QueueFull
from tests.core.engine.conftest import PLAN, OpenEngine
from tests.core.engine.test_engine import (
    OUT,
    answer,
    eventually,
    failing,
    finish,
    request,
    worker_of,
)
from tests.tiny import llama_config, make_model

TEXT = "once upon a time " * 8
SAMPLING = SamplingParams(temperature=1.2, top_p=0.97, seed=5)


def submit(engine: Engine, count: int, text: str = TEXT, **fields: Any) -> list[Generation]:
    prompt = TextPrompt(text=text)
    fields.setdefault("sampling", SAMPLING)
    fields.setdefault("max_tokens", 25)
    return engine.submit_choices(GenerationRequest(prompt=prompt, choices=count, **fields))


def singles(engine: Engine, count: int, text: str = TEXT) -> list[str]:
    """Return the answers of single requests with the seeds that choices have."""
    answers = []
    for n in range(count):
        seeded = SamplingParams(temperature=1.2, top_p=0.97, seed=choice_seed(5, n))
        answers.append(answer(engine, text, sampling=seeded, max_tokens=25)[0])
    return answers


@pytest.fixture(scope="module")
def alone(tiny_folder: Path) -> list[str]:
    """What eight single requests answer."""
    loader = partial(
        load,
        tiny_folder,
        model_id="tiny",
        plan=PLAN,
        defaults=SamplingParams(),
        memory_budget_gb=None,
    )
    with Engine(loader) as engine:
        return singles(engine, 8)


def settled(engine: Engine) -> None:
    """Wait until nothing is left of any row."""
    eventually(lambda: engine.stats().active_rows == engine.stats().waiting_rows == 0)
    eventually(lambda: engine.stats().kv_bytes == 0)
    assert not worker_of(engine)._families


def sliding(folder: Path) -> Path:
    """A model whose KV cannot be cut: its layers remember 32 tokens."""
    config = llama_config(
        model_type="gemma3_text",
        head_dim=16,
        sliding_window=32,
        sliding_window_pattern=2,
        query_pre_attn_scalar=16,
        rms_norm_eps=1e-6,
        rope_local_base_freq=10000.0,
    )
    return make_model(folder, config=config)


@pytest.mark.parametrize("cache", [0, 2**30])
def test_eight_choices_equal_eight_requests_and_compute_one_prompt(
    open_tiny: OpenEngine, alone: list[str], cache: int
) -> None:
    expected = alone
    engine = open_tiny(prompt_cache_bytes=cache)
    results = [finish(each) for each in submit(engine, 8)]
    assert [text for text, _ in results] == expected
    assert len(set(expected)) > 4
    # The last token of the prompt is computed for each.
    assert engine.stats().prompt_tokens == len(TEXT) + 7
    assert {end.usage.prompt_tokens for _, end in results} == {len(TEXT)}
    assert {end.usage.cached_tokens for _, end in results} == {0}
    settled(engine)
    again = [finish(each) for each in submit(engine, 8)]
    assert [text for text, _ in again] == expected
    known = len(TEXT) - 1 if cache else 0
    assert {end.usage.cached_tokens for _, end in again} == {known}
    settled(engine)


@pytest.mark.parametrize("cache", [0, 2**30])
def test_caches_that_cannot_be_cut_are_shared_too(
    open_tiny: OpenEngine, tmp_path: Path, cache: int
) -> None:
    engine = open_tiny(sliding(tmp_path), prompt_cache_bytes=cache)
    assert not engine._loaded.cuttable
    expected = singles(engine, 4)
    before = engine.stats().prompt_tokens
    assert [finish(each)[0] for each in submit(engine, 4)] == expected
    assert engine.stats().prompt_tokens - before <= len(TEXT) + 3
    settled(engine)


@pytest.mark.parametrize("batch", [1, 3])
def test_choices_beyond_the_cap_wait_for_a_place(
    open_tiny: OpenEngine, alone: list[str], batch: int
) -> None:
    expected = alone
    engine = open_tiny(batch=batch, prompt_cache_bytes=0)
    generations = submit(engine, 8)
    assert [finish(each)[0] for each in generations] == expected
    assert engine.stats().prompt_tokens == len(TEXT) + 7
    settled(engine)


def test_greedy_choices_are_all_the_same(open_tiny: OpenEngine) -> None:
    results = submit(open_tiny(), 3, sampling=SamplingParams(temperature=0.0))
    assert len({finish(each)[0] for each in results}) == 1


@pytest.mark.parametrize("text", ["a", "ab"])
def test_a_prompt_of_hardly_any_tokens_is_fine(open_tiny: OpenEngine, text: str) -> None:
    engine = open_tiny()
    expected = singles(engine, 3, text)
    assert [finish(each)[0] for each in submit(engine, 3, text)] == expected
    settled(engine)


def first_text(generation: Generation) -> str:
    return next(event.text for event in generation if isinstance(event, TextDelta))


def held(engine: Engine) -> threading.Event:
    """Let the engine wait until the event is set."""
    release = threading.Event()
    engine.run_exclusive(release.wait)
    return release


@pytest.mark.parametrize("gone", [[0], [1, 3], [0, 1, 2], [0, 1, 2, 3]])
@pytest.mark.parametrize("batch", [2, 8])
@pytest.mark.parametrize("moment", ["waiting", "prefill", "decode"])
def test_cancelling_some_leaves_the_others(
    open_tiny: OpenEngine, alone: list[str], gone: list[int], batch: int, moment: str
) -> None:
    expected = alone[:4]
    engine = open_tiny(batch=batch, prompt_cache_bytes=0)
    release = held(engine)
    generations = submit(engine, 4)
    begun = ""
    if moment == "prefill":
        # Once some row is in the batch and the prompt is not computed: between two turns.
        worker_of(engine)._admit()
    elif moment == "decode":
        release.set()
        begun = first_text(generations[0])
    for n in gone:
        generations[n].cancel()
    release.set()
    rest = [n for n in range(4) if n not in gone]
    ends = {n: "".join(getattr(e, "text", "") for e in generations[n]) for n in rest}
    assert ends == {n: expected[n].removeprefix(begun if n == 0 else "") for n in rest}
    settled(engine)
    stats = engine.stats()
    assert stats.finished_rows + stats.cancelled_rows == stats.submitted_rows
    assert answer(engine, "still right", max_tokens=5)[1].usage.completion_tokens <= 5


@pytest.mark.parametrize("batch", [2, 8])
@pytest.mark.parametrize("moment", ["prefill", "decode"])
def test_choices_go_on_after_running_out_of_memory(
    open_tiny: OpenEngine,
    alone: list[str],
    monkeypatch: pytest.MonkeyPatch,
    batch: int,
    moment: str,
) -> None:
    expected = alone[:4]
    engine = open_tiny(batch=batch)
    release = held(engine)
    generations = submit(engine, 4, logprobs=0)
    begun = ""
    if moment == "decode":
        release.set()
        begun = first_text(generations[0])
    failing(engine, monkeypatch, OUT)
    release.set()
    results = [finish(each) for each in generations]
    assert [begun + results[0][0], *(text for text, _ in results[1:])] == expected
    for _, end in results:
        assert len(end.logprobs or ()) == end.usage.completion_tokens
    assert engine.stats().failed_rows == 0
    settled(engine)


@pytest.mark.parametrize("insertion", range(4))
def test_no_row_is_lost_when_it_cannot_be_put_into_the_batch(
    open_tiny: OpenEngine, alone: list[str], monkeypatch: pytest.MonkeyPatch, insertion: int
) -> None:
    expected = alone[:3]
    engine = open_tiny()
    runner, count = worker_of(engine)._runner, 0

    def insert(*args: Any, **kwargs: Any) -> int:
        nonlocal count
        count += 1
        if count - 1 == insertion:
            raise OUT
        return BatchRunner.insert(runner, *args, **kwargs)

    monkeypatch.setattr(runner, "insert", insert)
    generations = submit(engine, 3)
    assert [finish(each)[0] for each in generations] == expected
    assert count >= 3
    settled(engine)


def test_a_choice_that_is_given_up_leaves_nothing_behind(
    open_tiny: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_tiny()
    release = held(engine)
    generations = submit(engine, 3)
    failing(engine, monkeypatch, OUT, MemoryError())
    release.set()
    failures = 0
    for each in generations:
        try:
            finish(each)
        except EngineFailed:
            failures += 1
    assert failures == 1
    settled(engine)


def test_others_run_beside_choices(open_tiny: OpenEngine) -> None:
    engine = open_tiny(batch=4)
    alone, _ = answer(engine, "somebody else", max_tokens=20)
    generations = submit(engine, 3)
    other = engine.submit(request("somebody else", max_tokens=20))
    assert finish(other)[0] == alone
    assert [finish(each)[0] for each in generations] == singles(engine, 3)


def test_all_choices_fit_the_queue_or_none_is_taken(open_tiny: OpenEngine) -> None:
    engine = open_tiny(batch=1)
    release = held(engine)
    for _ in range(8):
        submit(engine, 8, max_tokens=1)
    with pytest.raises(QueueFull):
        submit(engine, 8, max_tokens=1)
    assert engine.stats().waiting_rows == 64
    release.set()
    settled(engine)


def test_closing_ends_all_choices(open_tiny: OpenEngine) -> None:
    engine = open_tiny(batch=2)
    generations = submit(engine, 4, max_tokens=300)
    next(iter(generations[0]))
    engine.close()
    for each in generations:
        with pytest.raises(Exception, match="stopped"):
            list(each)


def test_seeds_of_choices_stay_apart() -> None:
    seeds = [choice_seed(seed, n) for seed in (0, 1, 2, 2**63 - 1, -5) for n in range(8)]
    assert len(set(seeds)) == len(seeds)
    assert [choice_seed(seed, 0) for seed in (7, 2**63)] == [7, 2**63]
    assert all(0 <= choice_seed(seed, 3) < 2**32 for seed in (7, 2**63, -1))
