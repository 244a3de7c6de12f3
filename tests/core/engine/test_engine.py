"""The engine on a tiny random model: right answers in any company, and a clean table after."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.utils import load_model

from core.engine.batch import BatchRunner
from core.engine.engine import Engine
from core.engine.events import Finished, TextDelta
from core.engine.generation import Generation
from core.engine.request import ChatPrompt, GenerationRequest, SamplingParams, TextPrompt
from core.engine.worker import Worker
from core.errors import BadRequest, ContextTooLong, EngineFailed, EngineStopped, QueueFull
from tests.core.engine.conftest import OpenEngine
from tests.tiny import EOS, byte_tokenizer, llama_config, make_model

GREEDY = SamplingParams(temperature=0.0)


def request(text: str = "abc", **fields: Any) -> GenerationRequest:
    fields.setdefault("sampling", GREEDY)
    return GenerationRequest(prompt=TextPrompt(text=text), **fields)


def finish(generation: Generation) -> tuple[str, Finished]:
    events = list(generation)
    end = events.pop()
    assert isinstance(end, Finished)
    return "".join(event.text for event in events if isinstance(event, TextDelta)), end


def answer(engine: Engine, *args: Any, **fields: Any) -> tuple[str, Finished]:
    return finish(engine.submit(request(*args, **fields)))


def eventually(condition: Any, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)


def worker_of(engine: Engine) -> Worker:
    assert engine._worker is not None
    return engine._worker


def live_bytes(engine: Engine) -> int:
    """Return the bytes in use beside those that the prompt cache holds on purpose."""
    stats = engine.stats()
    return stats.memory_bytes - stats.prompt_cache.nbytes


def reference_tokens(folder: Path, prompt: list[int], count: int) -> list[int]:
    """Return the greedy continuation by mlx-lm's own single-row loop, cut at EOS."""
    model, _ = load_model(folder)
    tokens: list[int] = []
    for token, _ in generate_step(mx.array(prompt), model, max_tokens=count):
        tokens.append(int(token))
        if token == EOS:
            break
    return tokens


@pytest.mark.parametrize("text", ["abc", "Hello, world", "x" * 90, "é☕"])
def test_greedy_answers_equal_mlx_lms_own_loop(
    open_tiny: OpenEngine, tiny_folder: Path, text: str
) -> None:
    prompt = byte_tokenizer().encode(text).ids
    tokens = reference_tokens(tiny_folder, prompt, 40)
    shown, end = answer(open_tiny(), text, max_tokens=40)
    assert shown == byte_tokenizer().decode([t for t in tokens if t != EOS])
    assert end.usage.completion_tokens == len(tokens)
    assert end.usage.prompt_tokens == len(prompt)
    assert end.reason == ("stop" if tokens[-1] == EOS else "length")


def test_answers_in_company_equal_those_alone(open_tiny: OpenEngine) -> None:
    texts = [f"prompt {number} " + "y" * (7 * number) for number in range(12)]
    serial, batched = open_tiny(batch=1), open_tiny(batch=8)
    alone = [answer(serial, text, max_tokens=30) for text in texts]
    together = [batched.submit(request(text, max_tokens=30)) for text in texts]
    results = [finish(generation) for generation in together]
    assert [text for text, _ in results] == [text for text, _ in alone]
    assert {end.usage.lane for _, end in alone} == {"serial"}
    assert {end.usage.lane for _, end in results} == {"batched"}


def test_a_seed_gives_the_same_answer_in_any_company(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    seeded = SamplingParams(temperature=0.9, top_p=0.95, seed=11)
    alone, _ = answer(engine, "seed me", sampling=seeded, max_tokens=25)
    others = [
        engine.submit(request(f"noise {n}", sampling=SamplingParams(temperature=1.0)))
        for n in range(5)
    ]
    company, _ = answer(engine, "seed me", sampling=seeded, max_tokens=25)
    for other in others:
        other.cancel()
    assert company == alone


def test_requests_without_a_seed_differ(open_tiny: OpenEngine) -> None:
    engine = open_tiny(defaults=SamplingParams(temperature=1.5))
    unseeded = [engine.submit(request(sampling=SamplingParams(), max_tokens=20)) for _ in range(4)]
    assert len({finish(generation)[0] for generation in unseeded}) > 1


def test_a_stop_text_ends_the_answer_and_is_not_shown(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    whole, _ = answer(engine, "stop here", max_tokens=60)
    middle = len(whole) // 2
    stop = whole[middle : middle + 2]
    expected = whole[: whole.index(stop)]
    shown, end = answer(engine, "stop here", max_tokens=60, stop=(stop,))
    assert shown == expected
    assert end.reason == "stop"
    assert end.usage.completion_tokens < 60


def test_eos_is_counted_and_is_a_stop_even_at_the_limit(
    open_tiny: OpenEngine, tiny_folder: Path
) -> None:
    engine = open_tiny()
    text = next(
        t
        for t in (f"try {n}" for n in range(200))
        if reference_tokens(tiny_folder, byte_tokenizer().encode(t).ids, 60)[-1] == EOS
    )
    _, free = answer(engine, text, max_tokens=60)
    assert free.reason == "stop"
    _, exact = answer(engine, text, max_tokens=free.usage.completion_tokens)
    assert exact.reason == "stop"
    assert exact.usage.completion_tokens == free.usage.completion_tokens
    if free.usage.completion_tokens > 1:
        _, short = answer(engine, text, max_tokens=free.usage.completion_tokens - 1)
        assert short.reason == "length"


def test_without_a_limit_the_answer_fills_the_context(
    open_tiny: OpenEngine, tmp_path: Path
) -> None:
    folder = make_model(tmp_path, config=llama_config(max_position_embeddings=64))
    engine = open_tiny(folder)
    ends = [answer(engine, "a" * length)[1] for length in range(10, 40)]
    full = [end.usage for end in ends if end.reason == "length"]
    assert full, "every answer met EOS: choose other prompts"
    assert all(usage.prompt_tokens + usage.completion_tokens == 64 for usage in full)


def test_the_servers_limit_applies_where_a_request_has_none(open_tiny: OpenEngine) -> None:
    engine = open_tiny(max_tokens=3)
    assert answer(engine)[1].usage.completion_tokens <= 3
    assert answer(engine, max_tokens=9)[1].usage.completion_tokens <= 9


@pytest.mark.parametrize("length", [512, 513, 5000, 50_000_000])
def test_a_prompt_that_fills_the_context_is_refused(open_tiny: OpenEngine, length: int) -> None:
    limit = r"This model's maximum context length is 512 tokens\."
    with pytest.raises(ContextTooLong, match=limit) as refusal:
        open_tiny().submit(request("a" * length))
    assert refusal.value.limit == 512
    assert 512 <= refusal.value.prompt_tokens <= length
    assert "memory" not in refusal.value.message


def test_a_prompt_with_room_for_one_token_gets_it(open_tiny: OpenEngine) -> None:
    _, end = answer(open_tiny(), "a" * 511)
    assert end.usage.completion_tokens == 1


def test_a_conversation_goes_through_the_template(open_tiny: OpenEngine) -> None:
    messages = ({"role": "system", "content": "s"}, {"role": "user", "content": "hi"})
    chat = GenerationRequest(prompt=ChatPrompt(messages=messages), sampling=GREEDY, max_tokens=5)
    # Special tokens count as one each: 2 messages of start, role, newline, text, end, newline.
    expected = (1 + 6 + 1 + 1 + 1 + 1) + (1 + 4 + 1 + 2 + 1 + 1) + (1 + 9 + 1)
    assert open_tiny().submit(chat).prompt_tokens == expected


def test_a_model_without_a_chat_template_says_so(open_tiny: OpenEngine, tmp_path: Path) -> None:
    engine = open_tiny(make_model(tmp_path, chat_template=None))
    assert not engine.info.has_chat_template
    chat = GenerationRequest(prompt=ChatPrompt(messages=({"role": "user", "content": "hi"},)))
    with pytest.raises(BadRequest, match="no chat template"):
        engine.submit(chat)
    assert answer(engine, max_tokens=2)[1].usage.completion_tokens <= 2


def test_a_template_that_refuses_is_a_bad_request(open_tiny: OpenEngine, tmp_path: Path) -> None:
    engine = open_tiny(
        make_model(tmp_path, chat_template="{{ raise_exception('roles alternate') }}")
    )
    chat = GenerationRequest(prompt=ChatPrompt(messages=({"role": "user", "content": "hi"},)))
    with pytest.raises(BadRequest, match="prompt build failed: roles alternate"):
        engine.submit(chat)


@pytest.mark.parametrize("moment", ["waiting", "prefill", "decode"])
def test_cancelling_frees_the_row(open_tiny: OpenEngine, moment: str) -> None:
    engine = open_tiny(batch=1)
    blocker = engine.submit(request("block")) if moment == "waiting" else None
    generation = engine.submit(request("z" * (400 if moment == "prefill" else 5)))
    if moment == "decode":
        next(iter(generation))
    generation.cancel()
    if blocker:
        blocker.cancel()
    eventually(lambda: engine.stats().active_rows == engine.stats().waiting_rows == 0)
    eventually(lambda: engine.stats().kv_bytes == 0)
    stats = engine.stats()
    assert stats.cancelled_rows + stats.finished_rows == stats.submitted_rows
    expected, _ = answer(open_tiny(), "still right", max_tokens=8)
    assert answer(engine, "still right", max_tokens=8)[0] == expected


def failing(engine: Engine, monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> None:
    """Let the next steps with rows in them raise `errors`, one each."""
    runner = worker_of(engine)._runner
    left = list(errors)

    def step(prefill_tokens: int) -> Any:
        if left:
            raise left.pop(0)
        return BatchRunner.step(runner, prefill_tokens)

    monkeypatch.setattr(runner, "step", step)


def test_a_failed_step_ends_its_answers_and_not_the_engine(
    open_tiny: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_tiny()
    expected, _ = answer(engine, "before", max_tokens=10)
    failing(engine, monkeypatch, ValueError("a kernel broke"))
    with pytest.raises(EngineFailed, match="a kernel broke"):
        list(engine.submit(request("doomed")))
    assert engine.stats().failed_rows == 1
    assert answer(engine, "before", max_tokens=10)[0] == expected


OUT = RuntimeError("[malloc] Unable to allocate 4096 bytes.")


@pytest.mark.parametrize("sampling", [GREEDY, SamplingParams(temperature=0.9, seed=4)])
def test_out_of_memory_once_changes_no_answer(
    open_tiny: OpenEngine, monkeypatch: pytest.MonkeyPatch, sampling: SamplingParams
) -> None:
    engine = open_tiny()
    texts = ["first", "second one", "the third of them"]
    expected = [answer(engine, t, max_tokens=30, sampling=sampling)[0] for t in texts]
    generations = [engine.submit(request(t, max_tokens=30, sampling=sampling)) for t in texts]
    for generation in generations:  # all under way, so that they go on in the middle
        next(iter(generation))
    failing(engine, monkeypatch, OUT)
    rest = [finish(generation)[0] for generation in generations]
    assert all(whole.endswith(end) for whole, end in zip(expected, rest, strict=True))
    assert [len(w) - len(e) for w, e in zip(expected, rest, strict=True)] != [0, 0, 0]
    assert engine.stats().failed_rows == 0


def test_out_of_memory_again_gives_the_longest_row_up(
    open_tiny: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_tiny()
    expected, _ = answer(engine, "short", max_tokens=20)
    release = threading.Event()
    engine.run_exclusive(release.wait)
    short = engine.submit(request("short", max_tokens=20))
    long = engine.submit(request("long " * 40, max_tokens=20))
    failing(engine, monkeypatch, OUT, MemoryError())
    release.set()
    assert finish(short)[0] == expected
    with pytest.raises(EngineFailed, match="failed"):
        list(long)
    assert engine.stats().failed_rows == 1


def test_a_row_that_does_not_fit_beside_others_waits_for_them(
    open_tiny: OpenEngine, tiny_folder: Path
) -> None:
    # Weights take 362 kB, a step's transients 4.3 MB, a row 131 kB for every 256 tokens, twice.
    engine = open_tiny(memory_budget_gb=0.0053)
    assert engine.max_context == 512
    first = engine.submit(request("a" * 200))
    second = engine.submit(request("b" * 200, max_tokens=5))
    next(iter(first))
    assert (engine.stats().active_rows, engine.stats().waiting_rows) == (1, 1)
    first.cancel()
    assert finish(second)[1].usage.completion_tokens <= 5


def test_the_context_is_what_the_memory_holds(open_tiny: OpenEngine) -> None:
    engine = open_tiny(memory_budget_gb=0.0050)
    assert engine.max_context == engine.stats().max_context == 256
    limit = r"maximum context length is 256 tokens\..* comes from the memory budget"
    with pytest.raises(ContextTooLong, match=limit) as refusal:
        engine.submit(request("a" * 256))
    assert "--memory-budget" in (refusal.value.hint or "")
    _, end = answer(engine, "a" * 250, max_tokens=1000)
    assert end.usage.prompt_tokens + end.usage.completion_tokens <= 256


def kill_thread(engine: Engine) -> threading.Thread:
    """Raise what nobody catches in the engine's thread, and return that thread."""
    victim = engine._thread
    number = ctypes.c_ulong(victim.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(SystemExit))
    engine._inbox.wake()
    return victim


def test_a_dead_thread_is_told_to_everybody_and_started_again(open_tiny: OpenEngine) -> None:
    engine = open_tiny(batch=1)
    expected, _ = answer(engine, "again", max_tokens=10)
    generations = [engine.submit(request(f"{n}")) for n in range(3)]
    next(iter(generations[0]))
    victim = kill_thread(engine)
    for generation in generations:
        with pytest.raises(EngineFailed):
            list(generation)
    victim.join(5)
    assert not engine.lost
    assert answer(engine, "again", max_tokens=10)[0] == expected
    assert engine._thread is not victim
    assert engine.alive
    # And once more, now that it has answered meanwhile.
    kill_thread(engine).join(5)
    assert answer(engine, "again", max_tokens=10)[0] == expected


def test_a_thread_that_dies_again_at_once_is_lost(open_tiny: OpenEngine) -> None:
    engine = open_tiny(batch=1)
    victim = kill_thread(engine)
    eventually(lambda: engine._thread is not victim and engine.alive)
    kill_thread(engine).join(5)
    eventually(lambda: engine.lost)
    with pytest.raises(EngineStopped):
        engine.submit(request())


def test_a_model_that_cannot_be_loaded_again_is_lost(open_tiny: OpenEngine, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    engine = open_tiny(folder)
    generation = engine.submit(request())
    next(iter(generation))
    (folder / "config.json").unlink()
    kill_thread(engine)
    with pytest.raises(EngineFailed):
        list(generation)
    eventually(lambda: engine.lost)
    assert not engine.alive


def test_a_stalled_thread_is_noticed_and_everybody_told(open_tiny: OpenEngine) -> None:
    engine = open_tiny(stall_seconds=1.0)
    release = threading.Event()
    stuck = engine.run_exclusive(release.wait)
    generation = engine.submit(request())
    with pytest.raises(EngineStopped, match="no progress for"):
        list(generation)
    assert not engine.alive
    release.set()
    assert stuck.result(10)


def test_an_idle_model_leaves_memory_and_comes_back(open_tiny: OpenEngine, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    engine = open_tiny(folder, keep_alive_seconds=0.2)
    expected, _ = answer(engine, "before", max_tokens=10)
    with_model = engine.stats().memory_bytes
    eventually(lambda: not engine.stats().loaded)
    eventually(lambda: engine.stats().memory_bytes < with_model - 300_000)
    assert answer(engine, "before", max_tokens=10)[0] == expected
    assert engine.alive
    eventually(lambda: not engine.stats().loaded)
    (folder / "model.safetensors").rename(tmp_path / "away")
    with pytest.raises(EngineFailed, match="no weights"):
        list(engine.submit(request()))
    (tmp_path / "away").rename(folder / "model.safetensors")
    assert answer(engine, "before", max_tokens=10)[0] == expected


def test_a_long_prompt_is_computed_between_the_steps_of_others(open_tiny: OpenEngine) -> None:
    engine = open_tiny(batch=2)
    stream = engine.submit(request("stream", max_tokens=400))
    events = iter(stream)
    next(events)
    before = engine.stats().generated_tokens
    _, end = answer(engine, "p" * 400, max_tokens=1)
    assert end.usage.completion_tokens == 1
    assert engine.stats().generated_tokens > before + 2
    stream.cancel()


def test_the_queue_is_bounded(open_tiny: OpenEngine) -> None:
    engine = open_tiny(batch=1)
    release = threading.Event()
    engine.run_exclusive(release.wait)
    generations = [engine.submit(request(max_tokens=1)) for _ in range(1 + 64)]
    with pytest.raises(QueueFull):
        engine.submit(request())
    release.set()
    assert all(finish(generation)[1].usage.completion_tokens == 1 for generation in generations)


def test_exclusive_work_runs_on_the_engines_thread(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    name = engine.run_exclusive(lambda: threading.current_thread().name).result(10)
    assert name == "mlxbun-engine"
    with pytest.raises(ZeroDivisionError):
        engine.run_exclusive(lambda: 1 // 0).result(10)
    assert engine.alive


def test_closing_ends_unfinished_answers(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    generation = engine.submit(request("long"))
    engine.close()
    with pytest.raises(EngineStopped):
        list(generation)
    with pytest.raises(EngineStopped):
        engine.submit(request())


def test_memory_is_back_after_a_burst(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    answer(engine, max_tokens=5)
    before = live_bytes(engine)
    burst = [engine.submit(request("m" * (10 + 9 * n), max_tokens=50)) for n in range(24)]
    for generation in burst[::2]:
        generation.cancel()
    for generation in burst[1::2]:
        finish(generation)
    eventually(lambda: engine.stats().active_rows == 0)
    eventually(lambda: engine.stats().memory_cache_bytes == 0)
    # Allocations are rounded up, and a kept sequence of this model is four small ones.
    rounding = 8_000 * engine.stats().prompt_cache.entries
    assert live_bytes(engine) <= before + 32_000 + rounding


@pytest.mark.parametrize("end", ["engine.close()", "pass"])
def test_a_process_that_ends_in_the_middle_of_an_answer_ends_well(
    tiny_folder: Path, end: str
) -> None:
    script = f"""
from functools import partial
from pathlib import Path
from core.engine.batch import BatchRunner
from core.engine.engine import Engine
from core.engine.loader import load
from core.engine.request import GenerationRequest, SamplingParams, TextPrompt
from tests.core.engine.conftest import PLAN

engine = Engine(partial(load, Path({str(tiny_folder)!r}), model_id="tiny", plan=PLAN,
                        defaults=SamplingParams(), memory_budget_gb=None))
next(iter(engine.submit(GenerationRequest(prompt=TextPrompt(text="hello")))))
{end}
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_tokens_are_counted_without_computing(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    chat = ChatPrompt(messages=({"role": "user", "content": "hello"},))
    assert engine.count_tokens(TextPrompt(text="hello")) == len("hello")
    counted = engine.count_tokens(chat)
    assert engine.stats().prompt_tokens == 0
    generation = engine.submit(GenerationRequest(prompt=chat, max_tokens=1))
    assert generation.prompt_tokens == counted
