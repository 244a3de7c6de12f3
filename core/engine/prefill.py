"""Prompts, computed in chunks beside the rows that decode, until they decode themselves.

Letters: B rows, T tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx_lm.generate import PromptProcessingBatch
from mlx_lm.models.cache import BatchKVCache, BatchRotatingKVCache, CacheList

from core.engine.decode import LeanGenerationBatch

if TYPE_CHECKING:
    from collections.abc import Iterator


class LeanPromptBatch(PromptProcessingBatch):  # type: ignore[misc]
    """Computes prompts: KV is allocated once, and rows that are done together are not copied.

    Attributes:
        room: tokens that the longest row has still to compute; set before each chunk.
    """

    prompt_cache: list[Any]
    room = 0

    def prompt(self, tokens: list[list[int]]) -> None:
        """Compute a chunk of each row."""
        self._grow_at_once()
        self._straighten_windows()
        super().prompt(tokens)

    def split(self, indices: list[int]) -> Any:
        """Take rows out and return them as a batch of their own."""
        for cache in self._growing():
            vars(cache).pop("step", None)  # from here on it grows by the usual
        if len(indices) < len(self.uids):
            return super().split(indices)
        whole, empty = (
            type(self).empty(
                self.model, self.fallback_sampler, prefill_step_size=self.prefill_step_size
            )
            for _ in range(2)
        )
        whole.__dict__.update(self.__dict__)
        self.__dict__.update(empty.__dict__)
        return whole

    def generate(self, tokens: list[list[int]]) -> LeanGenerationBatch:
        """Let the rows decode, from the last token of each; none are left here."""
        if any(len(each) > 1 for each in tokens):
            self.prompt([each[:-1] for each in tokens])
        decoding = self._start(
            self.model,
            self.uids,
            mx.array([each[-1] for each in tokens]),
            self._decoding_caches(),
            self.tokens,
            self.samplers,
            self.fallback_sampler,
            self.logits_processors,
            self.stop_sequences,
            self.max_tokens,
        )
        empty = type(self).empty(self.model, self.fallback_sampler, self.prefill_step_size)
        self.__dict__.update(empty.__dict__)
        return decoding

    def _start(self, *args: Any) -> LeanGenerationBatch:
        """Return the batch in which the rows decode."""
        return LeanGenerationBatch(*args)

    def _decoding_caches(self) -> list[Any]:
        """Return the caches that the rows decode with."""
        return self.prompt_cache

    def _growing(self) -> Iterator[Any]:
        """Yield the caches that grow by `step`, and copy all that is there whenever they do."""
        return (cache for cache in self.prompt_cache if type(cache) is BatchKVCache)

    def _straighten_windows(self) -> None:
        """Put sliding windows in the order of their tokens.

        A chunk of one token is written round the ring, as in decoding. mlx-lm makes the mask of a
        longer chunk after it from the place in the ring, which leaves out or lets in wrong tokens.
        """
        for cache in self.prompt_cache:
            for leaf in cache.caches if isinstance(cache, CacheList) else (cache,):
                if type(leaf) is BatchRotatingKVCache:
                    leaf._temporal_order()

    def _grow_at_once(self) -> None:
        """Let caches take room for the rest of the prompts when they grow next."""
        for cache in self._growing():
            cache.step = -(-self.room // BatchKVCache.step) * BatchKVCache.step or 1
