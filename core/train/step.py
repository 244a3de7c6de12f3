"""One step of a training: gradients of its batches added up, clipped, and AdamW's update.

AdamW is Loshchilov and Hutter's (2019, arXiv:1711.05101) with bias correction; B may have another
learning rate than A (LoRA+: Hayou et al. 2024, arXiv:2402.12354).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
from mlx.optimizers import AdamW

from core.engine.device import memory_now
from core.engine.split import Split
from core.errors import UsageProblem
from core.train.arrays import number
from core.train.attention import blocked_attention
from core.train.backward import (
    Finish,
    Values,
    checkpointed,
    segmented_value_and_grads,
    split_mlps,
    value_and_grads,
)
from core.train.config import TrainConfig
from core.train.data import sequences
from core.train.encode import Item
from core.train.lora import Arrays, seed_dropout, set_trainable, stop_dropout, trainable
from core.train.objective import Batch, Objective, Scores, Totals, means, response_tokens
from core.train.shared import can_share, shared_states

_BETAS = [0.9, 0.999]
_EPSILON = 1e-8
_SPARE_BYTES = 10**9  # that MLX may keep for reuse between steps


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What a step's gradients were taken of."""

    loss: float
    """Of all its batches together, in nats."""
    accuracy: float | None
    """Share of the pairs whose chosen response is likelier, by the mean log-probability of its
    tokens; None: no pairs."""
    reward_margin: float | None
    """DPO's implicit reward of the chosen response over the rejected one, mean over the pairs, in
    nats; None: not DPO."""
    grad_norm: float
    """Euclidean norm of the gradient before it was clipped."""
    tokens: int
    """Tokens that were computed, without padding."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A loss over a data set."""

    loss: float
    """The method's, in nats."""
    perplexity: float
    """e to the mean negative log-likelihood of a response's token, of pairs the chosen ones'."""
    accuracy: float | None
    """Share of the pairs whose chosen response is likelier, by the mean log-probability of its
    tokens; None: no pairs."""
    reward_margin: float | None
    """DPO's implicit reward of the chosen response over the rejected one, mean over the pairs, in
    nats; None: not DPO."""


class Optimizer:
    """AdamW over A and B."""

    def __init__(self, config: TrainConfig, parameters: Arrays) -> None:
        """Begin with empty moments."""
        self._ratio = config.lora_plus_ratio
        self._parts = {
            kind: AdamW(
                0.0,
                betas=_BETAS,
                eps=_EPSILON,
                weight_decay=config.weight_decay,
                bias_correction=True,
            )
            for kind in ("lora_a", "lora_b")
        }
        for kind, part in self._parts.items():
            part.init(_of_kind(parameters, kind))

    def update(self, parameters: Arrays, grads: Arrays, rate: float) -> Arrays:
        """Return the parameters after one step.

        Args:
            parameters: A and B by their paths.
            grads: their gradients.
            rate: A's learning rate.
        """
        changed: Arrays = {}
        for kind, part in self._parts.items():
            part.learning_rate = rate * (self._ratio if kind == "lora_b" else 1)
            mine = _of_kind(grads, kind)
            changed |= part.apply_gradients(mine, {name: parameters[name] for name in mine})
        return {name: changed[name] for name in parameters}

    @property
    def arrays(self) -> Arrays:
        """The moments and the count of steps, by names of their own."""
        found: Arrays = {}
        for kind, part in self._parts.items():
            found[f"{kind}/step"] = part.state["step"]
            for name, moments in part.state.items():
                if isinstance(moments, dict):
                    found |= {f"{name}/{moment}": moments[moment] for moment in ("m", "v")}
        return found

    def restore(self, arrays: Arrays) -> None:
        """Go on from what `arrays` was."""
        for kind, part in self._parts.items():
            part.state["step"] = arrays[f"{kind}/step"]
            for name, moments in part.state.items():
                if isinstance(moments, dict):
                    moments |= {moment: arrays[f"{name}/{moment}"] for moment in ("m", "v")}


class Stepper:
    """Computes steps and measurements of one model.

    Attributes:
        note: a sentence on what is not done as the configuration has it, or None.
    """

    def __init__(
        self, config: TrainConfig, model: Any, split: Split, *, reference: Arrays | None = None
    ) -> None:
        """Take the configuration and the model with its adapters.

        Args:
            config: the method and how it is computed.
            model: with its adapters.
            split: its parts.
            reference: as `Objective`.
        """
        self._config = config
        self._model = model
        self._split = split
        self._reference = reference
        self._objective = Objective(config, model, split, reference=reference)
        self._segment = config.segment_size or int(config.grad_checkpoint)
        self._shares, self.note = _sharing(config, split)

    def gradients(
        self, items: Sequence[Item], batches: Sequence[tuple[int, ...]], step: int
    ) -> tuple[StepResult, Arrays]:
        """Return the loss and the gradient of a step's batches, as of one large batch.

        Args:
            items: the training rows.
            batches: rows of each batch.
            step: from 1; the dropout follows from it.
        """
        rows = [items[row] for batch in batches for row in batch]
        totals = self._objective.totals(rows)
        scores: Scores | None = None
        grads: Arrays = {}
        with self._savers():
            for place, chosen in enumerate(batches):
                seed_dropout(self._model, self._config.seed, step, place)
                batch = self._objective.batch(items, chosen)
                found, more = self._batch_gradients(batch, totals)
                grads = {name: grads[name] + g if grads else g for name, g in more.items()}
                scores = scores.plus(found) if scores else found
                mx.eval(grads, scores.loss, scores.wins, scores.rewards)
        assert scores is not None
        # Batches have many shapes, and what MLX keeps of one seldom fits another.
        if memory_now().cache > _SPARE_BYTES:
            mx.clear_cache()
        grads, norm = clip(grads, self._config.grad_clip_norm)
        mx.eval(grads, norm)
        pairs = len(rows) if self._config.pairs else 0
        told = means(scores, tokens=response_tokens(rows), pairs=pairs)
        return (
            StepResult(
                loss=told["loss"],
                accuracy=told.get("accuracy"),
                reward_margin=told["reward_margin"] if self._config.method == "dpo" else None,
                grad_norm=number(norm),
                tokens=sum(len(part.tokens) for row in rows for part in sequences(row)),
            ),
            grads,
        )

    def measure(self, items: Sequence[Item], batches: Sequence[tuple[int, ...]]) -> Measured:
        """Return the loss over rows, without dropout."""
        rows = [items[row] for batch in batches for row in batch]
        objective = Objective(
            self._config, self._model, self._split, reference=self._reference, graded=False
        )
        totals = objective.totals(rows)
        stop_dropout(self._model)
        scores: Scores | None = None
        for chosen in batches:
            batch = objective.batch(items, chosen)
            with blocked_attention(self._model):
                objective.prepare(batch)
                found = objective.scores(self._split.body(batch.inputs), batch, totals)
            scores = scores.plus(found) if scores else found
            mx.eval(scores.loss, scores.nll, scores.wins, scores.rewards)
            objective.forget()
        assert scores is not None
        pairs = len(rows) if self._config.pairs else 0
        told = means(scores, tokens=response_tokens(rows), pairs=pairs)
        return Measured(
            loss=told["loss"],
            perplexity=_exp(told["nll"]),
            accuracy=told.get("accuracy"),
            reward_margin=told["reward_margin"] if self._config.method == "dpo" else None,
        )

    def _batch_gradients(self, batch: Batch, totals: Totals) -> tuple[Scores, Arrays]:
        self._objective.prepare(batch)

        def finish(states: mx.array) -> tuple[mx.array, ...]:
            scores = self._objective.scores(states, batch, totals)
            return scores.loss, scores.nll, scores.wins, scores.rewards

        split = self._split
        if self._shares:
            split = replace(split, body=lambda _tokens: shared_states(self._split, batch.pairs))
        values, grads = self._backward(split, batch.inputs, finish)
        loss, nll, wins, rewards = values
        return Scores(loss=loss, nll=nll, wins=wins, rewards=rewards), grads

    def _backward(self, split: Split, tokens: mx.array, finish: Finish) -> tuple[Values, Arrays]:
        """Take gradients in the way that the configuration asks for."""
        parts = (self._model, split, tokens, finish)
        if self._segment:
            try:
                return segmented_value_and_grads(*parts, size=self._segment)
            except UsageProblem:
                if self._config.segment_size:
                    raise
                self._segment = 0  # no plain row of layers: MLX's own checkpointing does it
        again = checkpointed(split.layers) if self._config.grad_checkpoint else nullcontext()
        with again:
            return value_and_grads(*parts)

    @contextmanager
    def _savers(self) -> Iterator[None]:
        mlps = split_mlps(self._split.layers) if self._config.mlp_split else nullcontext()
        with blocked_attention(self._model), mlps:
            yield


def _sharing(config: TrainConfig, split: Split) -> tuple[bool, str | None]:
    """Return whether pairs share the computation of their prompt, and what to tell if not."""
    if config.method != "orpo" or not config.orpo_prefix_shared:
        return False, None
    if config.grad_checkpoint or config.segment_size:
        return False, "Prompts are computed for each answer: layers are computed again."
    if not can_share(split):
        return False, "Prompts are computed for each answer: this architecture does not share them."
    return True, None


def clip(grads: Arrays, most: float) -> tuple[Arrays, mx.array]:
    """Return gradients whose norm is at most `most`, and the norm that they had.

    Args:
        grads: by path.
        most: 0: any norm.
    """
    norm = mx.sqrt(sum((mx.square(g).sum() for g in grads.values()), mx.array(0.0)))
    if not most:
        return grads, norm
    factor = mx.minimum(most / (norm + 1e-6), 1.0)
    return {name: g * factor for name, g in grads.items()}, norm


def apply(model: Any, optimizer: Optimizer, grads: Arrays, rate: float) -> None:
    """Change a model's adapters by one step."""
    changed = optimizer.update(trainable(model), grads, rate)
    set_trainable(model, changed)
    mx.eval(changed, optimizer.arrays)


def _exp(value: float) -> float:
    """Return e to a number, the largest there is where that is beyond a float."""
    return math.exp(min(value, 700.0))


def _of_kind(arrays: Arrays, kind: str) -> Arrays:
    return {name: array for name, array in arrays.items() if name.endswith(kind)}
