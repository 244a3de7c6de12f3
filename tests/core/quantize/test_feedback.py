"""Error feedback against rounding to the nearest and against mlx-lm's GPTQ."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx import nn
from mlx_lm.quant.gptq import gptq_quantize

from core.quantize.clip import clipped
from core.quantize.codes import Floats, as_floats
from core.quantize.feedback import feed_back
from core.quantize.form import Form
from core.quantize.hessian import metric_of, moments
from core.quantize.pack import plain_fit
from core.quantize.rounding import round_fed_back, unpacked
from tests.core.quantize.samples import as_half, correlated, matrix

_WIDTHS = (2, 3, 4, 5, 6, 8)


def _hessian(inputs: Floats) -> Floats:
    return np.asarray(inputs.T @ inputs / len(inputs), np.float32)


def _loss(wanted: Floats, found: Floats, hessian: Floats) -> float:
    missed = wanted - found
    return float(np.vdot(missed @ hessian, missed))


def _plain_loss(weight: Floats, hessian: Floats, form: Form) -> float:
    return _loss(weight, as_floats(unpacked(plain_fit(as_half(weight), form), form)), hessian)


@pytest.mark.parametrize("bits", _WIDTHS)
def test_feedback_loses_far_less_than_rounding_to_the_nearest(bits: int) -> None:
    weight, metric = matrix(), metric_of(_hessian(correlated()))
    hessian = metric.hessian
    found = feed_back(weight, metric, bits=bits, group_size=64, dtype=mx.float16)
    expected = _plain_loss(weight, hessian, Form(bits=bits, group_size=64))
    assert _loss(weight, found.values(), hessian) < 0.5 * expected


@pytest.mark.parametrize("group", [32, 64, 128])
def test_each_pass_of_coordinate_steps_loses_less(group: int) -> None:
    weight, metric = matrix(), metric_of(_hessian(correlated()))
    hessian = metric.hessian
    losses = [
        _loss(
            weight,
            feed_back(
                weight, metric, bits=3, group_size=group, dtype=mx.bfloat16, passes=passes
            ).values(),
            hessian,
        )
        for passes in range(4)
    ]
    assert losses == sorted(losses, reverse=True)
    assert losses[3] < 0.95 * losses[0]


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_feedback_loses_no_more_than_the_gptq_of_mlx_lm(bits: int) -> None:
    weight, inputs = matrix(), correlated()
    hessian = _hessian(inputs)
    found = feed_back(weight, metric_of(hessian), bits=bits, group_size=64, dtype=mx.float16)
    theirs = _loss(weight, _by_mlx_lm(weight, inputs, bits), hessian)
    assert _loss(weight, found.values(), hessian) <= theirs


def _by_mlx_lm(weight: Floats, inputs: Floats, bits: int) -> Floats:
    class One(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            self.layer.weight = as_half(weight)

        def __call__(self, x: mx.array) -> Any:
            return self.layer(x)

    model, _ = gptq_quantize(
        One(), mx.array(inputs)[:, None], bits, 64, fallback_bits=8, fallback_group_size=64,
        batch_size=len(inputs),
    )  # fmt: skip
    layer = model.layer
    packed = {"weight": layer.weight, "scales": layer.scales, "biases": layer.biases}
    return as_floats(unpacked(packed, Form(bits=bits, group_size=64)))


@pytest.mark.parametrize("bits", _WIDTHS)
def test_a_clipped_range_is_never_worse_than_a_whole_one(bits: int) -> None:
    weight = matrix(seed=3)
    weight[::7, ::50] *= 6  # outliers
    weight = as_floats(as_half(weight))
    even = np.ones(weight.shape[1], np.float32)
    found = clipped(weight, even, bits=bits, group_size=64, dtype=mx.float16)
    expected = _plain_loss(weight, np.diag(even), Form(bits=bits, group_size=64))
    assert np.square(found.values() - weight).sum() < expected


def test_the_factor_gives_the_hessian_again() -> None:
    metric = metric_of(_hessian(correlated()))
    assert np.allclose(np.diagonal(metric.upper), 1)
    assert not np.tril(metric.upper, -1).any()
    found = (metric.upper * metric.pivots) @ metric.upper.T
    assert np.allclose(found, metric.hessian, rtol=1e-4, atol=1e-4)


def test_rounding_makes_good_what_earlier_layers_lost() -> None:
    """The same weights on shifted inputs: the products come nearer to the original ones."""
    weight, original = matrix(), correlated(2048)
    noise = 0.2 * correlated(2048, seed=9, outliers=False)
    inputs = 0.9 * original + noise
    form = Form(bits=4, group_size=64)

    def error(given: Floats | None) -> float:
        found = moments(mx.array(inputs), None if given is None else mx.array(given))
        outcome = round_fed_back(as_half(weight), found, form)
        rounded = as_floats(unpacked(outcome.packed, form))
        return float(np.square(inputs @ rounded.T - original @ weight.T).mean())

    assert error(original) < 0.5 * error(None)
