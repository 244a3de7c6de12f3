"""What can happen to a request in the engine, each compared with mlx-lm's own loop.

mlx-lm's loop computes one prompt at a time with the model's own plain cache. The engine's tokens
are handed to it in place of a sampler, so that both read the same text whatever was drawn.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
from mlx_lm.generate import generate_step

from core.engine.events import Finished
from core.engine.request import GenerationRequest, SamplingParams, TextPrompt
from tests.families.model import EOS, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from core.engine.engine import Engine
    from core.engine.events import Position
    from core.engine.generation import Generation

NEAR = 1e-4  # nats
_LENGTH = 10  # tokens of an answer
_TOP = 5  # likeliest tokens that are compared beside the generated one
_PATIENCE = 60  # seconds
_NO_END = ((EOS, -1e4),)  # a bias: random models draw EOS where they please
GREEDY = SamplingParams(temperature=0.0, logit_bias=_NO_END)
DRAWN = SamplingParams(temperature=1.0, logit_bias=_NO_END, seed=7)


@dataclass(kw_only=True)
class Found:
    """How far the answers of a situation are from mlx-lm's own."""

    nats: float = 0.0
    """The largest difference of a log-probability."""
    ties: int = 0
    """Tokens that differ where the two likeliest are within the tolerance."""
    problems: list[str] = field(default_factory=list)
    """Other faults."""
    lanes: set[str] = field(default_factory=set)
    """How the sequences ran."""

    def fault(self, tolerance: float, lane: str) -> str | None:
        """Return what is wrong, or None.

        Args:
            tolerance: largest difference in nats that is no fault.
            lane: how the sequences are to run.
        """
        if self.problems:
            return self.problems[0]
        if self.lanes != {lane}:
            return f"ran {', '.join(sorted(self.lanes))} instead of {lane}"
        return f"{self.nats:.2g} nats" if self.nats > tolerance else None


class Case:
    """The engine on a tiny model, beside mlx-lm's own loop on the same model.

    Attributes:
        found: what the comparisons of this situation have found.
    """

    def __init__(self, engine: Engine, model: Any, seed: int) -> None:
        """Take both.

        Args:
            engine: of the tiny model.
            model: the same model for mlx-lm's own loop.
            seed: of the prompts; the same prompts would be in the prompt cache.
        """
        self.found = Found()
        self._engine = engine
        self._model = model
        self._dice = np.random.default_rng(seed)

    def prompt(self, length: int) -> list[int]:
        """Return random tokens."""
        return [int(token) for token in self._dice.integers(0, EOS, length)]

    def ask(self, prompt: list[int]) -> Generation:
        """Queue a request for a greedy answer."""
        return self._engine.submit(_request(prompt, GREEDY))

    def ask_thrice(self, prompt: list[int]) -> list[Generation]:
        """Queue a request for three answers that are drawn by chance."""
        return self._engine.submit_choices(_request(prompt, DRAWN, choices=3))

    def ask_together(self, prompts: list[list[int]]) -> list[Generation]:
        """Queue requests between two steps, so that they start at once."""
        free = threading.Event()
        self._engine.run_exclusive(lambda: free.wait(_PATIENCE))
        generations = [self.ask(prompt) for prompt in prompts]
        free.set()
        return generations

    def ask_later(self, first: list[int], second: list[int]) -> list[Generation]:
        """Queue a request, and between two steps another one when the first has three tokens."""
        goal = self._engine.stats().generated_tokens + 3
        generations: list[Generation] = []
        joined = threading.Event()

        def look() -> None:
            if self._engine.stats().generated_tokens < goal and len(generations) == 1:
                self._engine.run_exclusive(look)
                return
            generations.append(self.ask(second))
            joined.set()

        generations.append(self.ask(first))
        self._engine.run_exclusive(look)
        joined.wait(_PATIENCE)
        return generations

    def compare(
        self,
        prompt: list[int],
        generation: Generation,
        *,
        greedy: bool = True,
        cached: bool = False,
    ) -> list[int]:
        """Compare an answer with mlx-lm's own and return its tokens.

        Args:
            prompt: of the answer.
            generation: the answer.
            greedy: whether each token must be the likeliest one.
            cached: whether KV must come from the prompt cache.
        """
        end = _end(generation)
        self.found.lanes.add(end.usage.lane)
        positions = end.logprobs or ()
        tokens = [position.chosen.token for position in positions]
        if len(tokens) != _LENGTH:
            self.found.problems.append(f"{len(tokens)} tokens instead of {_LENGTH}")
        if cached and not end.usage.cached_tokens:
            self.found.problems.append("the prompt cache has nothing of an earlier turn")
        for position, wanted in zip(positions, self._own_loop(prompt, tokens), strict=True):
            self._compare_token(position, wanted, greedy=greedy)
        return tokens

    def _compare_token(
        self, position: Position, wanted: NDArray[np.float32], *, greedy: bool
    ) -> None:
        told = [(each.token, each.logprob) for each in (position.chosen, *position.top)]
        apart = [abs(float(wanted[token]) - logprob) for token, logprob in told]
        if not np.isfinite(apart).all():
            self.found.problems.append("numbers that are not finite")
            return
        best, chosen = int(wanted.argmax()), position.chosen.token
        if greedy and best != chosen:
            self.found.ties += 1
            apart.append(float(wanted[best] - wanted[chosen]))
        self.found.nats = max(self.found.nats, *apart)

    def _own_loop(self, prompt: list[int], tokens: list[int]) -> Iterator[NDArray[np.float32]]:
        """Yield mlx-lm's log-probabilities at each token of an answer."""
        given = iter(tokens)
        steps = generate_step(
            mx.array(prompt),
            self._model,
            max_tokens=len(tokens),
            sampler=lambda _: mx.array([next(given, 0)]),
            logits_processors=[lambda _, logits: logits.at[:, EOS].add(_NO_END[0][1])],
        )
        for _, logprobs in steps:
            yield np.array(logprobs.astype(mx.float32))


def own_difference(model: Any) -> float:
    """Return how far mlx-lm's own loop is from itself when it cuts a prompt into chunks, in nats.

    Nothing can be nearer to it than that.
    """
    dice = np.random.default_rng(0)
    cuts = ((150, 64), (150, 16), (41, 5), (41, 1))
    prompts = {length: mx.array(dice.integers(0, EOS, length)) for length, _ in cuts}
    return max(_own_difference(model, prompts[length], size) for length, size in cuts)


def _own_difference(model: Any, prompt: mx.array, size: int) -> float:
    """Return it for a prompt that is cut into chunks of `size` tokens."""
    whole = list(generate_step(prompt, model, max_tokens=_LENGTH))
    given = iter([token for token, _ in whole])
    pieces = generate_step(
        prompt,
        model,
        max_tokens=_LENGTH,
        prefill_step_size=size,
        sampler=lambda _: mx.array([next(given, 0)]),
    )
    pairs = zip(whole, pieces, strict=True)
    return max(float(mx.abs(one - other).max()) for (_, one), (_, other) in pairs)


def _alone(case: Case) -> None:
    prompt = case.prompt(9)
    case.compare(prompt, case.ask(prompt))


def _ragged(case: Case) -> None:
    prompts = [case.prompt(length) for length in (9, 70, 23, 41)]
    for prompt, answer in zip(prompts, case.ask_together(prompts), strict=True):
        case.compare(prompt, answer)


def _late(case: Case) -> None:
    prompts = [case.prompt(37), case.prompt(12)]
    for prompt, answer in zip(prompts, case.ask_later(*prompts), strict=True):
        case.compare(prompt, answer)


def _turns(case: Case) -> None:
    first = case.prompt(23)
    second = first + case.compare(first, case.ask(first)) + case.prompt(7)
    third = second + case.compare(second, case.ask(second), cached=True) + case.prompt(11)
    other = case.prompt(31)
    answers = case.ask_together([third, other])
    case.compare(third, answers[0], cached=True)
    case.compare(other, answers[1])
    fork = first[:15] + case.prompt(9)
    case.compare(fork, case.ask(fork))


def _three_answers(case: Case) -> None:
    prompt = case.prompt(17)
    for answer in case.ask_thrice(prompt):
        case.compare(prompt, answer, greedy=False)


def _chunks(case: Case) -> None:
    prompts = [case.prompt(150), case.prompt(90)]
    case.compare(prompts[0], case.ask(prompts[0]))
    again = [case.prompt(150), case.prompt(90), case.prompt(5)]
    for prompt, answer in zip(again, case.ask_together(again), strict=True):
        case.compare(prompt, answer)


SITUATIONS: dict[str, Callable[[Case], None]] = {
    "alone": _alone,
    "ragged": _ragged,
    "joining late": _late,
    "turns": _turns,
    "n = 3": _three_answers,
    "chunks": _chunks,
}
CHUNK = 64  # prompt tokens of one step: less than the long prompts have


def _request(prompt: list[int], sampling: SamplingParams, *, choices: int = 1) -> GenerationRequest:
    return GenerationRequest(
        prompt=TextPrompt(text=text_of(prompt)),
        sampling=sampling,
        max_tokens=_LENGTH,
        logprobs=_TOP,
        choices=choices,
    )


def _end(generation: Generation) -> Finished:
    return next(event for event in generation if isinstance(event, Finished))
