"""One matrix rounded: fallbacks, and the same bytes twice."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from core.quantize.experts import FLOOR, round_experts
from core.quantize.form import Form
from core.quantize.hessian import Moments, moments
from core.quantize.pack import plain_fit
from core.quantize.rounding import Packed, round_clipped, round_fed_back, unpacked
from tests.core.quantize.samples import as_half, correlated, matrix

_FORM = Form(bits=4, group_size=64)


def _same(one: Packed, other: Packed) -> bool:
    return one.keys() == other.keys() and all(
        bool(mx.array_equal(one[name], other[name]).item()) for name in one
    )


def _hessian(values: np.ndarray) -> Moments:
    return Moments(hessian=values.astype(np.float32), drift=None, tokens=512)


def test_the_same_matrix_gives_the_same_bytes() -> None:
    found = moments(mx.array(correlated()))
    one, other = (round_fed_back(as_half(matrix()), found, _FORM).packed for _ in range(2))
    assert _same(one, other)
    assert not _same(one, plain_fit(as_half(matrix()), _FORM))


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32], ids=str)
def test_scales_have_the_type_of_the_weights(dtype: mx.Dtype) -> None:
    weight = mx.array(matrix()).astype(dtype)
    outcome = round_fed_back(weight, moments(mx.array(correlated())), _FORM)
    assert outcome.obstacle is None
    expected = plain_fit(weight, _FORM)
    for name, array in outcome.packed.items():
        assert (array.shape, array.dtype) == (expected[name].shape, expected[name].dtype)


@pytest.mark.parametrize(
    ("hessian", "why"),
    [
        (np.full((128, 128), np.nan), "its inputs are not finite"),
        (np.zeros((128, 128)), "its inputs are all zero"),
        (np.eye(128) - 100 * np.ones((128, 128)), "its Hessian is not positive definite"),
    ],
)
def test_a_hessian_of_no_use_gives_a_plain_fit(hessian: np.ndarray, why: str) -> None:
    outcome = round_fed_back(as_half(matrix()), _hessian(hessian), _FORM)
    assert outcome.obstacle == why
    assert _same(outcome.packed, plain_fit(as_half(matrix()), _FORM))


def test_dead_channels_and_fewer_tokens_than_channels_are_no_obstacle() -> None:
    inputs = correlated(tokens=20)
    inputs[:, 10:30] = 0
    outcome = round_fed_back(as_half(matrix()), moments(mx.array(inputs)), _FORM)
    assert outcome.obstacle is None
    assert mx.isfinite(unpacked(outcome.packed, _FORM)).all().item()


def test_groups_of_one_value_and_tiny_weights_stay_finite() -> None:
    weight = matrix()
    weight[0], weight[1, :64], weight[2] = 0, 0.25, 6e-8
    for outcome in (
        round_clipped(as_half(weight), _FORM),
        round_fed_back(as_half(weight), moments(mx.array(correlated())), _FORM),
    ):
        found = unpacked(outcome.packed, _FORM)
        assert outcome.obstacle is None
        assert mx.isfinite(found).all().item()
        assert float(mx.abs(found[0]).max()) < 1e-3


@pytest.mark.parametrize("mode", ["mxfp4", "nvfp4", "mxfp8"])
def test_block_formats_are_packed_by_mlx(mode: str) -> None:
    bits, group = {"mxfp4": (4, 32), "nvfp4": (4, 16), "mxfp8": (8, 32)}[mode]
    form = Form(bits=bits, group_size=group, mode=mode)  # type: ignore[arg-type]
    outcome = round_fed_back(as_half(matrix()), moments(mx.array(correlated())), form)
    assert _same(outcome.packed, plain_fit(as_half(matrix()), form))
    assert mode in str(outcome.obstacle)


def test_each_expert_is_rounded_on_its_own_tokens() -> None:
    experts, tokens = 3, 400
    weights = mx.stack([as_half(matrix(seed=seed)) for seed in range(experts)])
    inputs = np.concatenate([correlated(tokens, seed=seed) for seed in range(2)])
    inputs = np.concatenate([inputs, correlated(FLOOR - 1, seed=5)])
    indices = np.repeat([0, 1, 2], [tokens, tokens, FLOOR - 1])
    order = np.random.default_rng(0).permutation(len(indices))
    found = round_experts(
        {"up": weights},
        {"up": _FORM},
        mx.array(inputs[order])[:, None],
        mx.array(indices[order]),
    )["up"]
    assert found.tokens == (tokens, tokens, FLOOR - 1)
    assert list(found.obstacles) == [2]
    assert str(FLOOR - 1) in found.obstacles[2]
    # Sums in another order differ in their last bits, which may turn a code.
    for expert in range(2):
        rows = mx.array(inputs[order][indices[order] == expert])
        expected = round_fed_back(weights[expert], moments(rows), _FORM).packed
        assert _same({name: each[expert] for name, each in found.packed.items()}, expected)
    assert _same({n: each[2] for n, each in found.packed.items()}, plain_fit(weights[2], _FORM))


def test_inputs_are_shared_by_all_experts_of_a_token() -> None:
    """Before they are sorted, inputs are [B, T, 1, 1, I] and indices [B, T, K]."""
    weights = mx.stack([as_half(matrix(seed=seed)) for seed in range(2)])
    inputs = mx.array(correlated(200)).reshape(2, 100, 1, 1, -1)
    indices = mx.broadcast_to(mx.array([0, 1]), (2, 100, 2))
    found = round_experts({"up": weights}, {"up": _FORM}, inputs, indices)["up"]
    assert found.tokens == (200, 200)
    assert not found.obstacles
