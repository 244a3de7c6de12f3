"""The rows that run, as mlx-lm's `BatchGenerator` computes them. The only place that steps arrays.

Knows rows by number and tokens by id; knows no text, no stop texts and no clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator

from core.engine.sampler import greedy, make_sampler
from core.engine.scheduler import prefill_chunk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.engine.request import SamplingParams


@dataclass(frozen=True, kw_only=True)
class StepToken:
    """One token of one row."""

    row: int
    """The number that `insert` returned."""
    token: int
    """Its id."""
    last: bool
    """Whether the row has ended: EOS or its limit. It is out of the batch then."""
    eos: bool
    """Whether the token is EOS."""


class BatchRunner:
    """Runs rows together, one step at a time: a decode step for all, then a prefill chunk."""

    def __init__(
        self, model: Any, *, eos_ids: Iterable[int], cap: int, prefill_tokens_per_step: int
    ) -> None:
        self._model = model
        self._eos_ids = frozenset(eos_ids)
        self._cap = cap
        self._prefill_tokens = prefill_tokens_per_step
        self._prefilling: set[int] = set()
        self._decoding: set[int] = set()
        self._generator = self._make_generator()

    def __len__(self) -> int:
        """Return how many rows run."""
        return len(self._prefilling) + len(self._decoding)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV caches of all rows."""
        return int(self._generator.prompt_cache_nbytes)

    def insert(self, prompt: list[int], *, max_tokens: int, sampling: SamplingParams) -> int:
        """Let a row start in the next step and return its number."""
        (row,) = self._generator.insert(
            [prompt], max_tokens=[max_tokens], samplers=[make_sampler(sampling)]
        )
        self._prefilling.add(row)
        return int(row)

    def remove(self, row: int) -> None:
        """Take a row out; its cache is free at once."""
        self._generator.remove([row])
        self._prefilling.discard(row)
        self._decoding.discard(row)

    def step(self) -> list[StepToken]:
        """Compute one step and return the tokens it brought, at most one a row."""
        self._generator.prefill_step_size = prefill_chunk(
            len(self._prefilling), self._prefill_tokens
        )
        _, responses = self._generator.next()
        tokens = [
            StepToken(
                row=response.uid,
                token=response.token,
                last=response.finish_reason is not None,
                eos=response.token in self._eos_ids,
            )
            for response in responses
        ]
        for token in tokens:
            self._prefilling.discard(token.row)
            (self._decoding.discard if token.last else self._decoding.add)(token.row)
        return tokens

    def reset(self) -> None:
        """Forget every row after a failed step: its caches may hold half a step."""
        self.close()
        self._prefilling.clear()
        self._decoding.clear()
        self._generator = self._make_generator()

    def rest(self) -> None:
        """Give memory that MLX keeps for reuse back: no row runs."""
        mx.clear_cache()

    def close(self) -> None:
        """Wait for the step in flight and undo what the generator changed (Metal's wired limit)."""
        mx.synchronize(self._generator.stream)
        self._generator.close()

    def _make_generator(self) -> BatchGenerator:
        return BatchGenerator(
            self._model,
            stop_tokens=[(token,) for token in sorted(self._eos_ids)],
            sampler=greedy,
            completion_batch_size=self._cap,
            prefill_batch_size=self._cap,
            # An upper bound: `step` sets the chunk, this one only cuts within it.
            prefill_step_size=self._prefill_tokens,
        )
