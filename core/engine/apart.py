"""Rows whose caches are not merged, for models that give wrong results with mlx-lm's batch caches.

mlx-lm pads prompts of different lengths when it computes them together, and some models take the
padding into their state; others cannot share a forward pass at all. Here every row keeps the plain
caches that `mlx_lm.generate` would use. Prompts are computed one row at a time. Then the rows are
merged and decode together (`JoinedPromptBatch`), or they decode one row at a time as well
(`SerialPromptBatch`).

Letters: B rows, T tokens, V vocabulary.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator, GenerationBatch, PromptProcessingBatch
from mlx_lm.models.cache import KVCache

from core.engine.cache.snapshot import SharedKv, compact, fork
from core.engine.decode import LeanGenerationBatch
from core.engine.prefill import LeanPromptBatch

if TYPE_CHECKING:
    from collections.abc import Iterator


class OwnCaches:
    """The caches of rows that stay apart.

    Takes the place of a batch's cache of one layer, so that mlx-lm moves the rows as usual.

    Attributes:
        rows: the plain caches of each row, one a layer.
    """

    def __init__(self, rows: list[list[Any]]) -> None:
        self.rows = rows

    @classmethod
    def merge(cls, caches: list[OwnCaches]) -> OwnCaches:
        """Return a cache with the rows of all given ones."""
        return cls([row for cache in caches for row in cache.rows])

    def extend(self, other: OwnCaches) -> None:
        """Add the rows of another one."""
        self.rows = [*self.rows, *other.rows]

    def filter(self, keep: list[int]) -> None:
        """Keep these rows only."""
        self.rows = [self.rows[index] for index in keep]

    def extract(self, index: int) -> OwnCaches:
        """Return a copy of one row, which does not change when the row runs on."""
        return OwnCaches([compact(copy.deepcopy(self.rows[index]))])

    @property
    def state(self) -> list[Any]:
        """Every array of all rows."""
        return [cache.state for row in self.rows for cache in row]

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return sum(int(cache.nbytes) for row in self.rows for cache in row)


def own(caches: list[Any]) -> list[OwnCaches]:
    """Return one row's caches in the form that a batch takes. Never writes to the given ones."""
    return [OwnCaches([copy.deepcopy(caches)])]


def layers(caches: list[Any]) -> list[Any]:
    """Return one row's caches, one a layer, whichever form they are in."""
    if caches and isinstance(caches[0], OwnCaches):
        (row,) = caches[0].rows
        return row
    return caches


class ApartPromptBatch(LeanPromptBatch):
    """Computes prompts one row at a time, without padding."""

    def prompt(self, tokens: list[list[int]]) -> None:
        """Compute a chunk of each row; an empty one leaves the row as it is."""
        self._grow_at_once()
        for history, row, chunk in zip(self.tokens, self._rows, tokens, strict=True):
            if chunk:
                history.extend(chunk)
                self.model(mx.array([chunk]), cache=row)
                mx.eval([cache.state for cache in row])
                mx.clear_cache()

    @property
    def _rows(self) -> list[list[Any]]:
        return self.prompt_cache[0].rows if self.prompt_cache else []

    def _growing(self) -> Iterator[Any]:
        return (c for row in self._rows for c in row if type(c) in (KVCache, SharedKv))


class JoinedPromptBatch(ApartPromptBatch):
    """Merges the rows when they decode."""

    def _decoding_caches(self) -> list[Any]:
        # On forks a single row is merged without a copy.
        rows = [list(map(fork, row)) for row in self._rows]
        return [same[0].merge(list(same)) for same in zip(*rows, strict=True)]


class SerialPromptBatch(ApartPromptBatch):
    """Leaves the rows apart when they decode."""

    def _start(self, *args: Any) -> LeanGenerationBatch:
        return ApartGenerationBatch(*args)


class ApartGenerationBatch(LeanGenerationBatch):
    """Decodes one row after the other, each with its plain caches."""

    def _forward(self, tokens: mx.array) -> mx.array:
        """Compute the logits after the next token of each row. [B] → [B, V]."""
        rows = self.prompt_cache[0].rows
        logits = [
            self.model(tokens[index : index + 1, None], cache=row)[:, -1, :]
            for index, row in enumerate(rows)
        ]
        return mx.concatenate(logits) if len(logits) > 1 else logits[0]


class TurnGenerator(BatchGenerator):  # type: ignore[misc]
    """Gives a step's prefill to one row after the other, in turns.

    mlx-lm gives every row an equal share. Where each row needs a forward pass of its own, shares of
    a few tokens would read all weights once for each. Here a row gets all that is left of the
    step's tokens, and the next step begins with the row after it: short prompts do not wait until
    a long one is complete.
    """

    _generation_batch: GenerationBatch
    _prompt_batch: PromptProcessingBatch
    _currently_processing: list[Any]
    _served = -1  # the row that prefilled last

    def _next(self) -> tuple[list[Any], list[Any]]:
        answers = []
        if len(self._generation_batch):
            answers = self._generation_batch.next()
            self._counters.generation_steps += 1
            if self._counters.generation_steps % 512 == 0:
                mx.clear_cache()
        free = self.completion_batch_size - len(self._generation_batch)
        if free <= 0:
            return [], answers
        room = min(free, self.prefill_batch_size - len(self._prompt_batch))
        new = min(room, len(self._unprocessed_sequences))
        if new > 0:
            self._prompt_batch.extend(self._make_batch(new))
        return [*self._start_decoding(), *self._prefill()], answers

    def _start_decoding(self) -> list[Any]:
        """Let the rows decode whose prompts are computed but for the last token."""
        waiting = self._currently_processing
        ready = [n for n, (segments, _, _) in enumerate(waiting) if _is_last_token(segments)]
        if not ready:
            return []
        last = [waiting[n][0][0] for n in ready]
        totals = [waiting[n][2] for n in ready]
        self._currently_processing = [row for n, row in enumerate(waiting) if n not in ready]
        started = self._prompt_batch.split(ready).generate(last)
        responses = [
            PromptProcessingBatch.Response(uid, (total, total), True, True)
            for uid, total in zip(started.uids, totals, strict=True)
        ]
        self._generation_batch.extend(started)
        return responses

    def _prefill(self) -> list[Any]:
        """Compute up to `prefill_step_size` tokens over all rows."""
        uids = self._prompt_batch.uids
        chunks: list[list[int]] = [[] for _ in uids]
        responses, left = [], self.prefill_step_size
        for index in sorted(range(len(uids)), key=lambda n: (uids[n] <= self._served, uids[n])):
            if not left:
                break
            chunks[index], response = self._take_chunk(index, left)
            left -= len(chunks[index])
            responses.append(response)
        if responses:
            self._served = responses[-1].uid
            self._prompt_batch.prompt(chunks)
        return responses

    def _take_chunk(self, index: int, most: int) -> tuple[list[int], Any]:
        """Take a chunk of a row's prompt, not beyond the end of its segment."""
        row = self._currently_processing[index]
        segments = row[0]
        chunk, segments[0] = segments[0][:most], segments[0][most:]
        ends = not segments[0]
        if ends:
            segments.pop(0)
        row[1] += len(chunk)
        uid, progress = self._prompt_batch.uids[index], (row[1], row[2])
        return chunk, PromptProcessingBatch.Response(uid, progress, ends, False)


def _is_last_token(segments: list[list[int]]) -> bool:
    return len(segments) == 1 and len(segments[0]) == 1
