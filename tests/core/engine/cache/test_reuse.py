"""The prompt cache in a running engine: the same answers, fewer tokens computed, for every kind of
layer: full attention, sliding windows, recurrent state and hybrids of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.engine.engine import Engine
from core.engine.events import Finished, TextDelta
from core.engine.request import ChatPrompt, GenerationRequest, SamplingParams, TextPrompt
from tests.core.engine.conftest import OpenEngine
from tests.tiny import llama_config, make_model

Answer = tuple[str, Finished]

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": llama_config(),
    "gemma3_text": llama_config(
        model_type="gemma3_text",
        head_dim=16,
        sliding_window=32,
        sliding_window_pattern=2,
        query_pre_attn_scalar=16,
    ),
    "mamba2": {
        "model_type": "mamba2",
        "num_heads": 8,
        "head_dim": 16,
        "vocab_size": 259,
        "hidden_size": 64,
        "intermediate_size": 128,
        "state_size": 16,
        "num_hidden_layers": 2,
        "layer_norm_epsilon": 1e-5,
        "conv_kernel": 4,
        "n_groups": 2,
        "use_bias": False,
        "use_conv_bias": True,
        "tie_word_embeddings": True,
        "time_step_limit": [0.0, 10.0],
        "time_step_rank": "auto",
        "max_position_embeddings": 512,
        "eos_token_id": 256,
    },
    "lfm2": llama_config(
        model_type="lfm2",
        norm_eps=1e-5,
        conv_bias=False,
        conv_L_cache=3,
        block_dim=64,
        block_ff_dim=128,
        block_multiple_of=32,
        block_ffn_dim_multiplier=1.0,
        block_auto_adjust_ff_dim=False,
        full_attn_idxs=[1],
        layer_types=["conv", "full_attention"],
    ),
}


def finish(generation: Any) -> Answer:
    *events, end = list(generation)
    return "".join(event.text for event in events if isinstance(event, TextDelta)), end


def chat(engine: Engine, *turns: str, max_tokens: int = 12) -> Answer:
    """Return the answer to turns of user, assistant, user …, the first being the system's."""
    roles = ["system", *["user", "assistant"] * len(turns)]
    messages = tuple({"role": r, "content": c} for r, c in zip(roles, turns, strict=False))
    request = GenerationRequest(
        prompt=ChatPrompt(messages=messages),
        sampling=SamplingParams(temperature=0.0),
        max_tokens=max_tokens,
    )
    return finish(engine.submit(request))


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return make_model(tmp_path / request.param, config=FAMILIES[request.param])


def test_the_next_turn_hits_whatever_the_layers_are(open_tiny: OpenEngine, family: Path) -> None:
    cached, fresh = open_tiny(family), open_tiny(family, prompt_cache_bytes=0)
    system = "Be brief and say what you mean."
    first, _ = chat(cached, system, "hello there")
    assert chat(fresh, system, "hello there")[0] == first
    # The answer as sent back need not be the tokens as generated (broken bytes, EOS); what stands
    # before the generation prompt is the same in any case.
    second, end = chat(cached, system, "hello there", "an answer", "and now?")
    assert second == chat(fresh, system, "hello there", "an answer", "and now?")[0]
    boundary = len(f"<system\n{system}>\n<user\nhello there>\n")  # one token a character
    assert end.usage.cached_tokens >= boundary
    assert end.usage.cached_tokens < end.usage.prompt_tokens


def test_another_conversation_shares_the_system_message(
    open_tiny: OpenEngine, family: Path
) -> None:
    cached, fresh = open_tiny(family), open_tiny(family, prompt_cache_bytes=0)
    system = "You are a helpful assistant with a long list of rules to follow."
    chat(cached, system, "first question")
    text, end = chat(cached, system, "other things")
    assert text == chat(fresh, system, "other things")[0]
    assert end.usage.cached_tokens >= len(system)


def test_a_regenerated_answer_hits_the_whole_prompt(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    first, once = chat(engine, "s", "tell me")
    again, twice = chat(engine, "s", "tell me")
    assert again == first
    assert once.usage.cached_tokens == 0
    assert twice.usage.cached_tokens == twice.usage.prompt_tokens - 1


def test_the_answers_own_tokens_are_cached(open_tiny: OpenEngine) -> None:
    engine = open_tiny()

    def go_on(prompt: str) -> Answer:
        request = GenerationRequest(
            prompt=TextPrompt(text=prompt), sampling=SamplingParams(temperature=0.0), max_tokens=6
        )
        return finish(engine.submit(request))

    prompts = [f"prompt {number}" for number in range(100)]
    answers = ((prompt, *go_on(prompt)) for prompt in prompts)
    # One whose bytes are text, so that it comes back as the tokens that it was generated as.
    prompt, text, _ = next(a for a in answers if "\ufffd" not in a[1] and a[2].reason == "length")
    # All but the last: when everybody has ended, no step is taken to compute its KV.
    assert go_on(prompt + text + "x")[1].usage.cached_tokens == len(prompt) + 6 - 1


def test_hits_of_different_lengths_run_in_one_batch(open_tiny: OpenEngine, family: Path) -> None:
    cached, fresh = open_tiny(family), open_tiny(family, prompt_cache_bytes=0, batch=1)
    systems = [f"System number {n}. " + "z" * (11 * n) for n in range(4)]
    for system in systems[:3]:
        chat(cached, system, "warm up")
    requests = [
        GenerationRequest(
            prompt=ChatPrompt(
                messages=(
                    {"role": "system", "content": system},
                    {"role": "user", "content": f"question {n}"},
                )
            ),
            sampling=SamplingParams(temperature=0.0),
            max_tokens=10,
        )
        for n, system in enumerate(systems)
    ]
    together = [finish(generation) for generation in [cached.submit(r) for r in requests]]
    alone = [finish(fresh.submit(r)) for r in requests]
    assert [text for text, _ in together] == [text for text, _ in alone]
    hits = [
        end.usage.cached_tokens >= len(s) for s, (_, end) in zip(systems, together, strict=True)
    ]
    assert hits == [True, True, True, False]


def test_a_cancelled_prompt_serves_its_retry(open_tiny: OpenEngine) -> None:
    engine = open_tiny()
    request = GenerationRequest(prompt=TextPrompt(text="retry " * 60), max_tokens=50)
    generation = engine.submit(request)
    next(iter(generation))
    generation.cancel()
    assert finish(engine.submit(request))[1].usage.cached_tokens >= 300


def test_a_small_cap_is_kept_under_many_prompts(open_tiny: OpenEngine) -> None:
    engine = open_tiny(prompt_cache_bytes=100_000)
    generations = [
        engine.submit(GenerationRequest(prompt=TextPrompt(text=f"{n} " * 30), max_tokens=5))
        for n in range(40)
    ]
    for generation in generations:
        finish(generation)
    assert 0 < engine.stats().prompt_cache.nbytes <= 100_000
