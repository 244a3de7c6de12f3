"""What our own layers cost: HTTP, the engine over mlx-lm, a second turn over its bare work.

Same float32 weights, same BLAS, pairs in turns; the bare parts run in this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.client import ask, prompt, user
from benchmarks.compare import Goal, Row, take_turns
from benchmarks.peers import Peer
from core.machine.compute import ComputePlan
from core.settings import Settings

_TOKENS = 64
_PAIRS = 2  # of each row, for each round: these are short
_TURN_WORDS = 730  # about 1,000 tokens of the starter
_NEW_TEXT = "And who slept under the roof while the wheel turned?"


def inside(server: Peer, model: Path, plan: ComputePlan, cache: Path, rounds: int) -> list[Row]:
    """Measure against a server that runs on the same folder.

    Args:
        server: mlxbun, on `model`.
        model: a float32 folder.
        plan: how to compute; its BLAS is in this process.
        cache: our cache folder.
        rounds: rounds of each row; short rows take two pairs each.
    """
    from core.engine.start import start_engine
    from core.registry.resolve import ModelRef

    ref = ModelRef(model_id="bench", folder=model)
    assert plan.fast_blas or plan.machine.backend != "cpu"
    with start_engine(ref, plan=plan, settings=Settings(), cache=cache, on_note=print) as engine:
        bare = Bare(engine, model)
        http = Row(name="HTTP, and the bare engine: 64 tokens (s)", goal=_most(1.05), inverse=False)
        loop = Row(
            name="engine, and mlx-lm's own loop: 64 tokens (s)", goal=_most(1.05), inverse=False
        )
        turn = Row(
            name="second turn of ~1,000 tokens, and its bare work + 30 ms: TTFT (s)",
            goal=_most(1.3),
            inverse=False,
        )
        short = take_turns(
            [
                (http, lambda salt: _http(server, salt), bare.engine_seconds),
                (loop, bare.engine_seconds, bare.loop_seconds),
            ],
            _PAIRS * rounds,
        )
        return [*short, *take_turns([_second_turn(turn, server, bare)], rounds)]


def _most(bound: float) -> Goal:
    return Goal(bound=bound, at_most=True)


def _http(server: Peer, salt: str) -> float:
    return ask(server.url, user(prompt(5, f"engine {salt}")), _TOKENS).total


def _second_turn(
    row: Row, server: Peer, bare: Bare
) -> tuple[Row, Callable[[str], float], Callable[[str], float]]:
    conversation: dict[str, list[dict[str, str]]] = {}

    def first_turn(salt: str) -> list[dict[str, str]]:
        if salt not in conversation:
            messages = user(prompt(_TURN_WORDS, f"turn {salt}"))
            reply = ask(server.url, messages, 64)
            answer = {"role": "assistant", "content": reply.text}
            conversation[salt] = [*messages, answer, *user(_NEW_TEXT)]
        return conversation[salt]

    def ours(salt: str) -> float:
        reply = ask(server.url, first_turn(salt), 1)
        new = reply.prompt_tokens - reply.cached_tokens
        print(f"    {reply.prompt_tokens} tokens, {new} of them new")
        return reply.ttft

    def floor(salt: str) -> float:
        return bare.turn_seconds(first_turn(salt)) + 0.03

    return row, ours, floor


class Bare:
    """The same model without HTTP, and without our engine."""

    def __init__(self, engine: Any, folder: Path) -> None:
        from mlx_lm.utils import load_config

        from core.engine.tokenizer import Tokenizer

        self._engine = engine
        self._tokenizer = Tokenizer.load(
            folder, eos_ids=load_config(folder).get("eos_token_id"), shelf=None
        )
        self._model = engine.run_exclusive(lambda: _load(folder)).result()

    def engine_seconds(self, salt: str) -> float:
        """Return the seconds of one answer from `Engine.submit` to its end."""
        from core.engine.request import ChatPrompt, GenerationRequest, SamplingParams

        began = time.perf_counter()
        request = GenerationRequest(
            prompt=ChatPrompt(messages=tuple(user(prompt(5, f"engine {salt}")))),
            sampling=SamplingParams(temperature=0.0),
            max_tokens=_TOKENS,
        )
        for _ in self._engine.submit(request):
            pass
        return time.perf_counter() - began

    def loop_seconds(self, salt: str) -> float:
        """Return the seconds of mlx-lm's `generate_step` for the same."""
        tokens = self._encode(user(prompt(5, f"engine {salt}")))
        return float(self._engine.run_exclusive(lambda: self._loop(tokens)).result())

    def turn_seconds(self, messages: list[dict[str, str]]) -> float:
        """Return the seconds of one forward of a second turn's new tokens, and of one step."""
        before, tokens = self._encode(messages[:1]), self._encode(messages)
        answered = len(self._encode(messages[:2], generate=False))
        cut = max(len(before), answered - 2)
        return float(
            self._engine.run_exclusive(lambda: self._turn(tokens[:cut], tokens[cut:])).result()
        )

    def _encode(self, messages: list[dict[str, str]], *, generate: bool = True) -> list[int]:
        from core.engine.request import ChatPrompt

        text = self._tokenizer.render(
            ChatPrompt(messages=tuple(messages)), generation_prompt=generate
        )
        return self._tokenizer.encode(text, special=False)

    def _loop(self, tokens: list[int]) -> float:
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        eos = self._tokenizer.eos_ids
        began = time.perf_counter()
        for token, _ in generate_step(mx.array(tokens), self._model, max_tokens=_TOKENS):
            if int(token) in eos:
                break
        return time.perf_counter() - began

    def _turn(self, known: list[int], new: list[int]) -> float:
        import mlx.core as mx
        from mlx_lm.models.cache import make_prompt_cache

        caches = make_prompt_cache(self._model)
        for at in range(0, len(known), 512):
            self._model(mx.array([known[at : at + 512]]), cache=caches)
            mx.eval([cache.state for cache in caches])
        began = time.perf_counter()
        self._model(mx.array([new[:-1]]), cache=caches)
        mx.eval([cache.state for cache in caches])
        mx.eval(mx.argmax(self._model(mx.array([new[-1:]]), cache=caches)[:, -1], axis=-1))
        return time.perf_counter() - began


def _load(folder: Path) -> Any:
    import mlx.core as mx
    from mlx_lm.utils import load_model

    model, _ = load_model(folder)
    mx.eval(model.parameters())
    return model
