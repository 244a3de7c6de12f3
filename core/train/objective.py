"""From rows to the loss of a method, so that batches add up to the large batch they are parts of.

`B` sequences, `T` tokens of the longest, `N` tokens that count, `P` pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from core.engine.split import Split, chunk_tokens
from core.train.arrays import number
from core.train.config import TrainConfig
from core.train.data import sequences
from core.train.encode import Encoded, EncodedPair, Item
from core.train.head import Kind, token_logps
from core.train.lora import Arrays, adapters_of, reference_on
from core.train.losses import dpo_sum, odds_ratio_sum, reward_margins


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What the sums of a step are divided by."""

    tokens: int
    """Tokens of the likelihood loss."""
    pairs: int
    """Preference pairs."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Sequences that are computed together; of pairs the chosen ones first."""

    inputs: mx.array
    """All tokens but the last of each sequence, padded at the end [B, T - 1]."""
    positions: mx.array
    """Which of the B · (T - 1) states come before tokens that count [N]."""
    targets: mx.array
    """Those tokens [N]."""
    of_response: mx.array
    """1 where a token belongs to a sequence's response, else 0 [B, N], float32."""
    likely: mx.array
    """1 where a token belongs to the likelihood loss, else 0 [N], float32."""
    pairs: tuple[EncodedPair, ...]
    """The pairs that it is made of; empty: it is made of none."""
    key: tuple[int, ...]
    """The rows it is made of: tells batches of one data set apart."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What a batch came to, as sums: of any number of batches too."""

    loss: mx.array
    """Divided by the totals already, so that these add up to the loss."""
    nll: mx.array
    """Negative log-likelihood of the responses, of pairs the chosen ones, summed, in nats."""
    wins: mx.array
    """Pairs whose chosen response is likelier, by the mean log-probability of its tokens."""
    rewards: mx.array
    """DPO's implicit reward of the chosen responses over the rejected ones, summed, in nats."""

    def plus(self, other: Scores) -> Scores:
        """Return the scores of both."""
        return Scores(
            loss=self.loss + other.loss,
            nll=self.nll + other.nll,
            wins=self.wins + other.wins,
            rewards=self.rewards + other.rewards,
        )


class Objective:
    """The loss of one method on one model."""

    def __init__(
        self,
        config: TrainConfig,
        model: Any,
        split: Split,
        *,
        reference: Arrays | None = None,
        graded: bool = True,
    ) -> None:
        """Take the configuration and the model with its adapters.

        Args:
            config: the method and how it is computed.
            model: with its adapters.
            split: its parts.
            reference: A and B of DPO's reference; None: it is the base model.
            graded: whether gradients will be taken of the scores.
        """
        self._config = config
        self._graded = graded
        self._adapters = adapters_of(model)
        self._frozen = reference
        self._split = split
        self._kind, self._chunk = _way(config, split)
        self._reference: dict[tuple[int, ...], mx.array] = {}

    def totals(self, items: Iterable[Item]) -> Totals:
        """Return what the sums over some rows are divided by."""
        rows = list(items)
        tokens = sum(sum(_likely_mask(self._config, row)) for row in rows)
        return Totals(tokens=tokens, pairs=len(rows))

    def batch(self, items: Sequence[Item], rows: tuple[int, ...]) -> Batch:
        """Return some rows of a data set as arrays."""
        return make_batch([items[row] for row in rows], rows, self._config)

    def scores(self, states: mx.array, batch: Batch, totals: Totals) -> Scores:
        """Return what a batch comes to.

        Args:
            states: the body's output [B, T - 1, D].
            batch: the batch.
            totals: of the step that it is part of.
        """
        logps = self._logps(states, batch, graded=self._graded)  # [N]
        likelihood = -(batch.likely * logps).sum() / max(1, totals.tokens)
        if not self._config.pairs:
            none = mx.array(0)
            return Scores(loss=likelihood, nll=-logps.sum(), wins=none, rewards=mx.array(0.0))
        sums = batch.of_response @ logps  # [2 P]
        averages = sums / batch.of_response.sum(axis=1)
        pairs = sums.shape[0] // 2
        rewards = mx.array(0.0)
        if self._config.method == "dpo":
            margins = self._margins(sums, batch)
            loss, rewards = dpo_sum(margins) / totals.pairs, margins.sum()
        else:
            odds = odds_ratio_sum(averages[:pairs], averages[pairs:]) / totals.pairs
            loss = likelihood + self._config.orpo_lambda * odds
        wins = (averages[:pairs] > averages[pairs:]).sum()
        return Scores(loss=loss, nll=-sums[:pairs].sum(), wins=wins, rewards=rewards)

    def reference(self, batch: Batch) -> mx.array:
        """Return the reference's summed log-probabilities of a batch's responses [2 P]."""
        return self._reference[batch.key]

    def prepare(self, batch: Batch) -> None:
        """Compute what the loss needs of the reference: before the gradients, outside of them.

        It is kept: a batch that comes again has the same rows in the same order.
        """
        if self._config.method != "dpo" or batch.key in self._reference:
            return
        with reference_on(self._adapters, self._frozen):
            logps = self._logps(self._split.body(batch.inputs), batch, graded=False)
            sums = batch.of_response @ logps
            mx.eval(sums)
        self._reference[batch.key] = sums

    def forget(self) -> None:
        """Forget the stored values of the reference, before another data set."""
        self._reference.clear()

    def _margins(self, sums: mx.array, batch: Batch) -> mx.array:
        reference, pairs = self.reference(batch), sums.shape[0] // 2
        return reward_margins(
            sums[:pairs],
            sums[pairs:],
            reference[:pairs],
            reference[pairs:],
            self._config.dpo_beta,
        )

    def _logps(self, states: mx.array, batch: Batch, *, graded: bool) -> mx.array:
        kind: Kind = "chunked" if self._kind == "flash" and not graded else self._kind
        flat = states.reshape(-1, states.shape[-1])
        picked = flat[batch.positions]  # [N, D]
        return token_logps(picked, batch.targets, self._split.head, kind=kind, chunk=self._chunk)


def make_batch(items: Sequence[Item], key: tuple[int, ...], config: TrainConfig) -> Batch:
    """Return rows as arrays."""
    rows = _chosen_first(items)
    longest = max(len(row.tokens) for row in rows)
    tokens = np.zeros((len(rows), longest), np.int32)
    response = np.zeros((len(rows), longest), bool)
    likely = np.zeros((len(rows), longest), bool)
    for index, row in enumerate(rows):
        tokens[index, : len(row.tokens)] = row.tokens
        response[index, : len(row.tokens)] = np.frombuffer(row.response, np.uint8)
    for index, item in enumerate(items):  # the chosen ones are the first rows
        mask = _likely_mask(config, item)
        likely[index, : len(mask)] = np.frombuffer(mask, np.uint8)
    counted = response | likely
    row_of, place = np.nonzero(counted)
    of_response = np.zeros((len(rows), len(row_of)), np.float32)
    of_response[row_of, np.arange(len(row_of))] = response[row_of, place]
    return Batch(
        inputs=mx.array(tokens[:, :-1]),
        positions=mx.array((row_of * (longest - 1) + place - 1).astype(np.int32)),
        targets=mx.array(tokens[row_of, place]),
        of_response=mx.array(of_response),
        likely=mx.array(likely[row_of, place].astype(np.float32)),
        pairs=tuple(item for item in items if isinstance(item, EncodedPair)),
        key=key,
    )


def response_tokens(items: Iterable[Item]) -> int:
    """Return the tokens of the responses, of pairs those of the chosen ones."""
    return sum(sum(sequences(item)[0].response) for item in items)


def means(scores: Scores, *, tokens: int, pairs: int) -> Mapping[str, float]:
    """Return scores as numbers.

    They are `loss`, `nll` of a response's token, and of pairs `accuracy` and `reward_margin`.

    Args:
        scores: summed over rows.
        tokens: `response_tokens` of those rows.
        pairs: how many there are; 0: they are none.
    """
    found = {"loss": number(scores.loss), "nll": number(scores.nll) / max(1, tokens)}
    if not pairs:
        return found
    told = {"accuracy": scores.wins, "reward_margin": scores.rewards}
    return found | {name: number(total) / pairs for name, total in told.items()}


def _way(config: TrainConfig, split: Split) -> tuple[Kind, int]:
    """Return how cross-entropies are computed, and by how many tokens."""
    own = config.orpo_chunk_size if config.method == "orpo" else 0
    chunk = own or config.chunk_size or chunk_tokens(split.vocabulary)
    if not split.known or not config.orpo_fused_ce:
        return "whole", chunk
    return ("flash" if config.orpo_flash_ce else "chunked"), chunk


def _likely_mask(config: TrainConfig, item: Item) -> bytes:
    """Return which tokens of a row belong to the likelihood loss; DPO has none."""
    first = sequences(item)[0]
    if config.method == "dpo":
        return bytes(len(first.tokens))
    return first.response if config.response_only else first.everything


def _chosen_first(items: Sequence[Item]) -> list[Encoded]:
    first = [sequences(item)[0] for item in items]
    return [*first, *(item.rejected for item in items if isinstance(item, EncodedPair))]
