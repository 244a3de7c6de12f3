"""The rows that run, as mlx-lm's `BatchGenerator` computes them. The only place that steps arrays.

Knows rows by number and tokens by id; knows no text, no stop texts and no clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator
from mlx_lm.models.cache import make_prompt_cache

from core.engine.apart import (
    ApartGenerationBatch,
    JoinedPromptBatch,
    SerialPromptBatch,
    TurnGenerator,
    layers,
    own,
)
from core.engine.chooser import RowChooser
from core.engine.decode import LeanGenerationBatch
from core.engine.joining import JoinRoom
from core.engine.prefill import LeanPromptBatch
from core.engine.sampler import greedy, make_sampler
from core.engine.scheduler import prefill_chunk
from core.engine.shaping import make_shaping

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.engine.constraint import Constraint
    from core.engine.logprobs import Reading
    from core.engine.request import SamplingParams
    from core.fit.batching import BatchMode

_PROMPT_BATCHES = {
    "padded": LeanPromptBatch,
    "joined": JoinedPromptBatch,
    "serial": SerialPromptBatch,
}


@dataclass(frozen=True, kw_only=True)
class StepToken:
    """One token of one row."""

    row: int
    """The number that `insert` returned."""
    token: int
    """Its id."""
    last: bool
    """Whether the row has ended: EOS, its limit, or a complete constraint. It is out of the batch
    then."""
    eos: bool
    """Whether the token is EOS."""
    complete: bool
    """Whether the row's constraint is complete with it."""
    reading: Reading | None
    """Its log-probabilities, when the row wants them."""
    taken: Taken | None
    """What the row had computed, when it has ended."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """The KV of a row at one moment."""

    tokens: list[int]
    """What it was computed from: prompt, then answer."""
    caches: list[Any]
    """One mlx-lm cache a layer."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one step brought."""

    tokens: list[StepToken]
    """At most one a row."""
    boundaries: list[int]
    """Rows whose prefill has reached the end of a segment that is not the last."""
    chunks: dict[int, int]
    """Prompt tokens computed, by row."""
    started: list[int]
    """Rows whose prompt is computed, and whose first token comes next."""

    @property
    def prefilled(self) -> int:
        """Prompt tokens computed, over all rows."""
        return sum(self.chunks.values())


class RowEnd:
    """Says when a row has ended, in the place of mlx-lm's matcher of stop sequences."""

    def __init__(self, eos_ids: frozenset[int], chooser: RowChooser) -> None:
        self._eos_ids = eos_ids
        self._chooser = chooser

    def matcher(self) -> RowEnd:
        """Return what mlx-lm asks for each token."""
        return self

    def advance(self, token: int) -> bool:
        """Return whether the row ends with this token, of which its constraint has heard."""
        return token in self._eos_ids or self._chooser.complete


class BatchRunner:
    """Runs rows together, one step at a time: a decode step for all, then a prefill chunk.

    Attributes:
        mode: how rows run together; `serial` computes every row alone, with plain caches.
    """

    def __init__(
        self,
        model: Any,
        *,
        eos_ids: Iterable[int],
        cap: int,
        most_prefill_tokens: int,
        newline_ids: Iterable[int] = (),
        mode: BatchMode = "padded",
    ) -> None:
        """Take the model.

        Args:
            model: the mlx-lm module.
            eos_ids: tokens that end a row.
            cap: rows that may run together.
            most_prefill_tokens: tokens that one chunk may hold over all rows.
            newline_ids: the tokens of a line's end, which XTC leaves alone as it does EOS.
            mode: how rows run together on this model (`core.fit.batching`).
        """
        self.mode = mode
        self._model = model
        self._eos_ids = frozenset(eos_ids)
        self._exempt = self._eos_ids | frozenset(newline_ids)
        self._cap = cap
        self._most_prefill_tokens = most_prefill_tokens
        self._prefilling: dict[int, int] = {}  # row: tokens still to compute
        self._decoding: set[int] = set()
        self._cuts: dict[int, int] = {}  # row: ends of segments still to be told
        self._choosers: dict[int, RowChooser] = {}
        self._lengths: dict[int, int] = {}  # row: tokens that it had to compute
        self._room = JoinRoom()
        self._generator = self._make_generator()

    def __len__(self) -> int:
        """Return how many rows run."""
        return len(self._prefilling) + len(self._decoding)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV caches of all rows, and of the memory for those about to join."""
        return int(self._generator.prompt_cache_nbytes) + self._room.nbytes

    def insert(
        self,
        segments: list[list[int]],
        *,
        max_tokens: int,
        sampling: SamplingParams,
        drawn: int = 0,
        cached: list[int] | None = None,
        caches: list[Any] | None = None,
        constraint: Constraint | None = None,
        logprobs: int | None = None,
    ) -> int:
        """Let a row start in the next step and return its number.

        Args:
            segments: the prompt's tokens that are still to be computed, cut where its KV is to be
                taken; none is empty.
            max_tokens: most tokens to generate, at least 1.
            sampling: every field set.
            drawn: tokens that the row has drawn before.
            cached: the tokens before them.
            caches: the KV of exactly these tokens, one cache a layer; None: there are none.
            constraint: what the row may generate; it has heard of what the row has generated.
            logprobs: None: no log-probabilities; n: with those of the n likeliest tokens.
        """
        tokens = [*(cached or ()), *chain.from_iterable(segments)]
        chooser = RowChooser(
            sampler=make_sampler(sampling, drawn=drawn, exempt=self._exempt),
            shaping=make_shaping(sampling, tokens[:-1]),
            constraint=constraint,
            top=logprobs,
        )
        (row,) = self._generator.insert_segments(
            [segments],
            max_tokens=[max_tokens],
            caches=[self._own(caches)],
            all_tokens=[list(cached or ())],
            samplers=[chooser],
            stop_sequences=[RowEnd(self._eos_ids, chooser)],
        )
        self._choosers[int(row)] = chooser
        self._prefilling[row] = self._lengths[row] = sum(map(len, segments))
        self._cuts[row] = len(segments) - 1
        return int(row)

    def _own(self, caches: list[Any] | None) -> list[Any] | None:
        """Return a row's caches as the batch takes them; None: mlx-lm makes them."""
        if self.mode == "padded":
            return caches
        return own(caches if caches is not None else make_prompt_cache(self._model))

    def take(self, row: int) -> Taken:
        """Return what a row has computed so far; it runs on."""
        caches, tokens = self._generator.extract_cache([row])[row]
        return Taken(tokens=list(tokens), caches=layers(caches))

    def remove(self, row: int) -> None:
        """Take a row out; its cache is free at once."""
        self._generator.remove([row])
        self._forget(row)

    @property
    def decoding(self) -> int:
        """How many rows decode."""
        return len(self._decoding)

    def step(self, prefill_tokens: int) -> Step:
        """Compute one step: a decode step for all rows, then a prefill chunk.

        Args:
            prefill_tokens: tokens that the chunk may hold over all rows.
        """
        together = len(self._prefilling) if self.mode == "padded" else 1
        self._generator.prefill_step_size = prefill_chunk(together, prefill_tokens)
        self._generator._prompt_batch.room = max(self._prefilling.values(), default=0)
        prefilled, responses = self._generator.next()
        tokens = [self._token(response) for response in responses]
        for token in tokens:
            if token.last:
                self._forget(token.row)
            else:
                self._decode_on(token.row)
        step = Step(
            tokens=tokens,
            boundaries=self._boundaries(prefilled),
            chunks=self._count_prefill(prefilled),
            started=[r.uid for r in prefilled if r.end_of_prompt],
        )
        self._make_room()
        return step

    def _make_room(self) -> None:
        """Take memory for the rows that join next, over the second half of their prompts."""
        left = set(self._prefilling.values())
        batch, prompts = self._generator._generation_batch, self._generator._prompt_batch
        together = len(left) == 1 and len(prompts) == len(self._prefilling)
        if self.mode != "padded" or not (together and self._decoding and len(batch)):
            self._room.clear()
            return
        share = 1 - 2 * left.pop() / max(self._lengths[row] for row in self._prefilling)
        if share > 0:
            self._room.prepare(batch.prompt_cache, prompts.prompt_cache, share)

    def _count_prefill(self, prefilled: list[Any]) -> dict[int, int]:
        """Return how many prompt tokens the step computed of each row."""
        counts: dict[int, int] = {}
        for response in prefilled:
            if response.uid in self._prefilling and not response.end_of_prompt:
                done, total = response.progress
                left = total - done
                counts[int(response.uid)] = self._prefilling[response.uid] - left
                self._prefilling[response.uid] = left
        return counts

    def _boundaries(self, prefilled: list[Any]) -> list[int]:
        """Return the rows at the end of a segment of theirs; mlx-lm cuts off one more token."""
        reached = [r.uid for r in prefilled if r.end_of_segment and self._cuts.get(r.uid)]
        for row in reached:
            self._cuts[row] -= 1
        return reached

    def _decode_on(self, row: int) -> None:
        self._prefilling.pop(row, None)
        self._cuts.pop(row, None)
        self._decoding.add(row)

    def _forget(self, row: int) -> None:
        for of_rows in (self._prefilling, self._cuts, self._choosers, self._lengths):
            of_rows.pop(row, None)
        self._decoding.discard(row)

    def _token(self, response: Any) -> StepToken:
        ended = response.finish_reason is not None
        return StepToken(
            row=response.uid,
            token=response.token,
            last=ended,
            eos=response.token in self._eos_ids,
            complete=self._choosers[response.uid].complete,
            reading=response.logprobs,
            taken=Taken(tokens=response.all_tokens, caches=layers(response.prompt_cache))
            if ended
            else None,
        )

    def settle(self) -> None:
        """Wait for the step in flight."""
        mx.synchronize(self._generator.stream)

    def reset(self) -> None:
        """Forget every row after a failed step: its caches may hold half a step."""
        self.close()
        self._prefilling.clear()
        self._decoding.clear()
        self._cuts.clear()
        self._choosers.clear()
        self._lengths.clear()
        self._room.clear()
        self._generator = self._make_generator()

    def rest(self) -> None:
        """Give memory that MLX keeps for reuse back: no row runs."""
        self._room.clear()
        mx.clear_cache()

    def close(self) -> None:
        """Wait for the step in flight and undo what the generator changed (Metal's wired limit)."""
        self.settle()
        self._generator.close()

    def _make_generator(self) -> BatchGenerator:
        made = BatchGenerator if self.mode == "padded" else TurnGenerator
        generator = made(
            self._model,
            sampler=greedy,
            completion_batch_size=self._cap,
            prefill_batch_size=self._cap,
            # An upper bound: `step` sets the chunk, this one only cuts within it.
            prefill_step_size=self._most_prefill_tokens,
        )
        # Rows join the batch that is there, so this one serves them all.
        decoding = ApartGenerationBatch if self.mode == "serial" else LeanGenerationBatch
        generator._generation_batch = decoding.empty(self._model, greedy)
        generator._generation_batch.room = self._room
        generator._prompt_batch = _PROMPT_BATCHES[self.mode].empty(
            self._model, greedy, prefill_step_size=self._most_prefill_tokens
        )
        return generator
