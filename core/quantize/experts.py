"""The experts of a mixture, each rounded on the tokens that were routed to it.

`E` experts, `O` outputs, `I` inputs, `N` pairs of a token and an expert that it was routed to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from core.quantize.form import Form
from core.quantize.hessian import Moments, moments
from core.quantize.pack import plain_fit
from core.quantize.rounding import Outcome, Packed, round_fed_back

FLOOR = 64
"""Tokens that an expert must have seen to be fitted; with fewer its Hessian says too little."""


@dataclass(frozen=True, kw_only=True)
class ExpertOutcome:
    """The rounded weights of all experts of one layer."""

    packed: Packed
    """Arrays [E, O, ..]."""
    tokens: tuple[int, ...]
    """How many calibration tokens each expert saw."""
    obstacles: dict[int, str]
    """For each expert that was rounded plainly the reason, as a clause."""


def round_experts(
    weights: Mapping[str, mx.array],
    forms: Mapping[str, Form],
    inputs: mx.array,
    indices: mx.array,
) -> dict[str, ExpertOutcome]:
    """Return the rounded experts of the layers that share an input, by path.

    One expert's Hessian is in memory at a time. All experts of a layer have its form.

    Args:
        weights: for each layer [E, O, I].
        forms: for each layer.
        inputs: [.., 1, I], as `SwitchLinear` is called.
        indices: the experts of each input; its dimensions broadcast against those before `1`.
    """
    done: dict[str, list[Outcome]] = {path: [] for path in weights}
    tokens: list[int] = []
    for expert, found in enumerate(_each_expert(inputs, indices, _experts(weights))):
        tokens.append(found.tokens)
        for path, weight in weights.items():
            done[path].append(_round_expert(weight[expert], found, forms[path]))
    return {path: _together(outcomes, tuple(tokens)) for path, outcomes in done.items()}


def _experts(weights: Mapping[str, mx.array]) -> int:
    return int(next(iter(weights.values())).shape[0])


def _each_expert(inputs: mx.array, indices: mx.array, experts: int) -> Iterator[Moments]:
    """Yield the moments of each expert's inputs."""
    width = inputs.shape[-1]
    every = mx.broadcast_to(inputs, (*indices.shape, 1, width)).reshape(-1, width)
    chosen = np.array(indices).reshape(-1)
    for expert in range(experts):
        places = np.flatnonzero(chosen == expert)
        if not len(places):
            yield Moments(hessian=np.zeros((width, width), np.float32), drift=None, tokens=0)
            continue
        yield moments(every[mx.array(places)])


def _round_expert(weight: mx.array, found: Moments, form: Form) -> Outcome:
    if found.tokens < FLOOR:
        seen = f"it saw {found.tokens} of the {FLOOR} tokens that a fit needs"
        return Outcome(packed=plain_fit(weight, form), obstacle=seen)
    return round_fed_back(weight, found, form)


def _together(outcomes: list[Outcome], tokens: tuple[int, ...]) -> ExpertOutcome:
    names = outcomes[0].packed
    return ExpertOutcome(
        packed={name: mx.stack([each.packed[name] for each in outcomes]) for name in names},
        tokens=tokens,
        obstacles={expert: each.obstacle for expert, each in enumerate(outcomes) if each.obstacle},
    )
