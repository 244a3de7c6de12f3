"""The decode step of mlx-lm's batch, without the work that nobody asked for.

mlx-lm normalizes the logits of every row at every step and computes all of them to the end, for
clients that want log-probabilities. Choosing a token needs neither: filters and draws are the same
for logits that are shifted by a constant. On a CPU that is 5% of a step with 8 rows and 9% with 16
(measured, SmolLM2-135M float32).

Letters: B rows, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx_lm.generate import GenerationBatch

from core.engine.joining import join_caches
from core.engine.sampler import sample_rows


class LeanGenerationBatch(GenerationBatch):  # type: ignore[misc]
    """Decodes rows; `logprobs` of its responses are None unless a row has logits processors."""

    prompt_cache: list[Any]
    _next_tokens: mx.array
    _next_logprobs: list[Any]

    def extend(self, batch: GenerationBatch) -> None:
        """Take the rows of another batch in."""
        # With no caches to add, mlx-lm's own does the rest.
        caches, batch.prompt_cache = batch.prompt_cache, []
        super().extend(batch)
        self.prompt_cache = join_caches(self.prompt_cache, caches)
        # The tokens at hand are not to wait for the next step, nor that one for all of the copies.
        soon = self.prompt_cache[: len(self.prompt_cache) // 2]
        mx.async_eval(self._next_tokens, [cache.state for cache in soon])  # type: ignore[no-untyped-call]

    def _step(self) -> tuple[list[int], list[Any]]:
        """Start the next step and return the tokens of the one before: one host sync a step."""
        if any(self.logits_processors):
            return super()._step()  # type: ignore[no-any-return]
        self._current_tokens, current = self._next_tokens, self._next_tokens
        self._current_logprobs = self._next_logprobs
        if self._all_end():
            # Nobody would read another token: the KV of these last ones is not computed, either.
            return current.tolist(), self._current_logprobs  # type: ignore[return-value]
        logits = self.model(current[:, None], cache=self.prompt_cache)[:, -1, :]  # [B, V]
        self._next_tokens = sample_rows(logits, self.samplers)
        self._next_logprobs = [None] * len(self.uids)
        mx.async_eval(self._next_tokens)  # type: ignore[no-untyped-call]
        tokens: list[int] = current.tolist()  # type: ignore[assignment]
        for history, token in zip(self.tokens, tokens, strict=True):
            history.append(token)
        return tokens, self._current_logprobs

    def _all_end(self) -> bool:
        """Return whether the tokens at hand are the last of every row, by their limits."""
        limits = zip(self._num_tokens, self.max_tokens, strict=True)
        return bool(self.uids) and all(done + 1 >= limit for done, limit in limits)
