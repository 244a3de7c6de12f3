"""Rows that are not padded, or not batched: answers do not depend on the rows beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import ArraysCache, CacheList, ChunkedKVCache, KVCache, make_prompt_cache
from mlx_lm.utils import load_model

from core.engine.apart import OwnCaches
from core.engine.batch import BatchRunner
from core.engine.cache.snapshot import KvSnapshot
from core.engine.engine import Engine
from core.engine.events import Finished
from core.engine.request import ChatPrompt, GenerationRequest, SamplingParams
from tests.core.engine.conftest import OpenEngine
from tests.core.engine.test_engine import GREEDY, eventually, finish, request
from tests.core.fit.tiny_families import tiny_config
from tests.tiny import EOS, SPECIAL, byte_tokenizer, make_model

NEAR = 1e-4  # nats
# What mlx-lm's batches compute wrongly or not at all, each in its own way, and a plain one.
FAMILIES = ["mamba", "jamba", "rwkv7", "gemma2", "gpt_bigcode", "llama4", "llama"]
BATCHED = {"mamba", "jamba", "rwkv7", "llama"}
TEXTS = ["x" * 90, "a", "the third one " * 2, "and four"]


def family_config(family: str) -> dict[str, Any]:
    """Return a config whose vocabulary is the byte tokenizer's."""
    config = tiny_config(family)
    for scope in (config, config.get("text_config") or {}):
        if scope is config or "vocab_size" in scope:
            scope["vocab_size"] = 256 + len(SPECIAL)
    if family == "gemma2":
        config |= {"num_attention_heads": 8, "num_key_value_heads": 4}
    return config


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {family: make_model(root / family, config=family_config(family)) for family in FAMILIES}


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(folders: dict[str, Path], family: str) -> Path:
    return folders[family]


def alone(folder: Path, tokens: list[int], count: int) -> list[tuple[int, float]]:
    """Return the greedy answer and its log-probabilities by mlx-lm's own loop, cut at EOS."""
    model, _ = load_model(folder)
    answer: list[tuple[int, float]] = []
    for token, logprobs in generate_step(mx.array(tokens), model, max_tokens=count):
        answer.append((int(token), float(logprobs[token])))
        if token == EOS:
            break
    return answer


def ids(text: str) -> list[int]:
    return list(byte_tokenizer().encode(text).ids)


def same(end: Finished, wanted: list[tuple[int, float]]) -> None:
    found = [(at.chosen.token, at.chosen.logprob) for at in end.logprobs or ()]
    assert [token for token, _ in found] == [token for token, _ in wanted]
    assert [value for _, value in found] == pytest.approx([v for _, v in wanted], abs=NEAR)


def submit(engine: Engine, text: str, count: int = 12, **fields: Any) -> Any:
    return engine.submit_choices(request(text, max_tokens=count, logprobs=0, **fields))


def test_rows_in_ragged_company_answer_as_they_do_alone(
    open_tiny: OpenEngine, folder: Path, family: str
) -> None:
    engine = open_tiny(folder, prompt_cache_bytes=0)
    generations = [submit(engine, text)[0] for text in TEXTS]
    for text, generation in zip(TEXTS, generations, strict=True):
        _, end = finish(generation)
        same(end, alone(folder, ids(text), 12))
        assert end.usage.lane == ("batched" if family in BATCHED else "serial")


def test_a_row_that_joins_late_changes_nothing(open_tiny: OpenEngine, folder: Path) -> None:
    engine = open_tiny(folder, prompt_cache_bytes=0)
    (first,) = submit(engine, TEXTS[1], 60)
    eventually(lambda: engine.stats().generated_tokens > 5)
    (late,) = submit(engine, TEXTS[0], 8)
    same(finish(late)[1], alone(folder, ids(TEXTS[0]), 8))
    same(finish(first)[1], alone(folder, ids(TEXTS[1]), 60))


def test_later_turns_go_on_from_the_prompt_cache(open_tiny: OpenEngine, folder: Path) -> None:
    engine = open_tiny(folder)
    messages: list[dict[str, Any]] = []
    for turn, said in enumerate(("once upon a time", "go on", "and then?")):
        messages.append({"role": "user", "content": said})
        prompt = ChatPrompt(messages=tuple(messages))
        asked = GenerationRequest(prompt=prompt, sampling=GREEDY, max_tokens=9, logprobs=0)
        _, end = finish(engine.submit(asked))
        turns = (f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        same(end, alone(folder, ids("".join(turns) + "<|im_start|>assistant\n"), 9))
        assert (end.usage.cached_tokens > 0) == (turn > 0)
        messages.append({"role": "assistant", "content": "it was so"})


def test_hits_of_other_lengths_run_together(open_tiny: OpenEngine, folder: Path) -> None:
    engine = open_tiny(folder)
    for text in TEXTS:
        finish(submit(engine, text, 2)[0])
    longer = [text + end for text, end in zip(TEXTS, ("!", " more of it", "", "?"), strict=True)]
    generations = [submit(engine, text)[0] for text in longer]
    for text, generation in zip(longer, generations, strict=True):
        same(finish(generation)[1], alone(folder, ids(text), 12))
    # The stored cache has not changed.
    for text in longer:
        same(finish(submit(engine, text)[0])[1], alone(folder, ids(text), 12))


def test_choices_share_a_prompt(open_tiny: OpenEngine, folder: Path) -> None:
    engine = open_tiny(folder)
    wanted = alone(folder, ids("three of us"), 10)
    for generation in submit(engine, "three of us", 10, choices=3):
        same(finish(generation)[1], wanted)


def test_a_seed_draws_the_same_with_and_without_company(
    open_tiny: OpenEngine, folder: Path
) -> None:
    drawn = SamplingParams(temperature=0.8, seed=5, repetition_penalty=1.2)
    engine = open_tiny(folder, prompt_cache_bytes=0)
    by_itself = finish(submit(engine, "draw", 15, sampling=drawn)[0])[0]
    others = [submit(engine, text, 30)[0] for text in TEXTS]
    assert finish(submit(engine, "draw", 15, sampling=drawn)[0])[0] == by_itself
    for other in others:
        finish(other)


@pytest.mark.parametrize("family", ["mamba", "llama4"])
def test_a_prompt_that_is_cancelled_half_way_leaves_the_others_alone(
    open_tiny: OpenEngine, folders: dict[str, Path], family: str
) -> None:
    engine = open_tiny(folders[family])
    gone = submit(engine, "z" * 400)[0]
    stays = submit(engine, TEXTS[2])[0]
    gone.cancel()
    same(finish(stays)[1], alone(folders[family], ids(TEXTS[2]), 12))
    eventually(lambda: engine.stats().active_rows == engine.stats().kv_bytes == 0)
    same(finish(submit(engine, "z" * 400)[0])[1], alone(folders[family], ids("z" * 400), 12))


@pytest.mark.parametrize("mode", ["joined", "serial"])
def test_chunks_of_any_size_give_the_same(folders: dict[str, Path], mode: Any) -> None:
    model, _ = load_model(folders["jamba"])
    prompts = [ids(text) for text in TEXTS]
    wanted = [[token for token, _ in alone(folders["jamba"], p, 5)] for p in prompts]
    for chunk in (1, 7, 512):
        runner = BatchRunner(model, eos_ids=[EOS], cap=8, most_prefill_tokens=512, mode=mode)
        rows = [runner.insert([prompt], max_tokens=5, sampling=GREEDY) for prompt in prompts]
        found: dict[int, list[int]] = {row: [] for row in rows}
        while len(runner):
            for token in runner.step(chunk).tokens:
                found[token.row].append(token.token)
        runner.close()
        assert [found[row] for row in rows] == wanted


def test_prompts_take_turns_and_short_ones_are_not_kept_waiting(folders: dict[str, Path]) -> None:
    model, _ = load_model(folders["mamba"])
    runner = BatchRunner(model, eos_ids=(), cap=8, most_prefill_tokens=512, mode="joined")
    long = [runner.insert([ids("l" * 300)], max_tokens=1, sampling=GREEDY) for _ in range(2)]
    short = runner.insert([ids("short")], max_tokens=1, sampling=GREEDY)
    ended: list[int] = []
    steps, computed = 0, []
    while len(runner):
        step = runner.step(20)
        ended += [token.row for token in step.tokens if token.last]
        computed.append(step.prefilled)
        steps += 1
    runner.close()
    assert ended[0] == short
    assert sorted(ended[1:]) == long
    assert max(computed) == 20
    # Nothing of a step is given away while there is something to compute: the short row has 4
    # tokens before its last one, the long ones have 299 each.
    assert computed[: (4 + 299 + 299) // 20] == [20] * 30
    assert sum(computed) == 4 + 299 + 299
    assert steps < 40


def test_a_chunk_of_one_token_does_not_confuse_a_sliding_window(folders: dict[str, Path]) -> None:
    model, _ = load_model(folders["llama"])  # windows of 32 tokens in every other layer
    runner = BatchRunner(model, eos_ids=(), cap=8, most_prefill_tokens=512, mode="padded")
    prompts = [ids("many words " * 6), ids("a late one, and short")]
    found: dict[int, list[tuple[int, float]]] = {}

    def insert(prompt: list[int]) -> None:
        row = runner.insert([prompt], max_tokens=4, sampling=GREEDY, logprobs=0)
        found[row] = []

    insert(prompts[0])
    runner.step(40)
    insert(prompts[1])
    runner.step(2)  # one token of each
    while len(runner):
        for token in runner.step(20).tokens:
            assert token.reading is not None
            found[token.row].append((token.token, token.reading.chosen))
    runner.close()
    for prompt, answer in zip(prompts, found.values(), strict=True):
        wanted = alone(folders["llama"], prompt, 4)
        assert [token for token, _ in answer] == [token for token, _ in wanted]
        logprobs = [value for _, value in wanted]
        assert [value for _, value in answer] == pytest.approx(logprobs, abs=NEAR)


def test_segments_are_told_where_they_end(folders: dict[str, Path]) -> None:
    model, _ = load_model(folders["mamba"])
    runner = BatchRunner(model, eos_ids=(), cap=8, most_prefill_tokens=512, mode="joined")
    tokens = ids("boundaries here")
    row = runner.insert([tokens[:5], tokens[5:9], tokens[9:]], max_tokens=1, sampling=GREEDY)
    lengths = []
    while len(runner):
        if row in runner.step(100).boundaries:
            lengths.append(len(runner.take(row).tokens))
    runner.close()
    assert lengths == [5, 9]


def test_a_copy_of_a_row_stays_as_it_was() -> None:
    plain, state = KVCache(), ArraysCache(1)
    plain.update_and_fetch(mx.ones((1, 1, 3, 2)), mx.ones((1, 1, 3, 2)))
    state[0] = mx.ones((1, 2))
    rows = OwnCaches([[CacheList(plain, state), plain]])
    (copied,) = rows.extract(0).rows
    nbytes = sum(cache.nbytes for cache in copied)
    plain.update_and_fetch(mx.zeros((1, 1, 2, 2)), mx.zeros((1, 1, 2, 2)))
    plain.keys[..., :3, :] = 7
    state[0] = mx.zeros((1, 2))
    inner, outer = copied
    assert inner[0].offset == outer.offset == 3
    assert inner[0].keys.tolist() == outer.keys.tolist() == [[[[1, 1]] * 3]]
    assert inner[1][0].tolist() == [[1, 1]]
    assert nbytes == 2 * (2 * 3 * 2 * 4) + 2 * 4  # without the room for more


def test_a_chunked_cache_that_has_dropped_tokens_is_not_cut(folders: dict[str, Path]) -> None:
    model, _ = load_model(folders["llama4"])
    caches = make_prompt_cache(model)
    assert any(isinstance(cache, ChunkedKVCache) for cache in caches)
    model(mx.array([ids("y" * 60)]), cache=caches)
    assert KvSnapshot(caches).can_be_cut
    for _ in range(2):  # it drops what is too old when it is used next
        model(mx.array([ids("y" * 20)]), cache=caches)
    assert not KvSnapshot(caches).can_be_cut
