"""Orthogonal matrices of every size."""

from __future__ import annotations

import hashlib

import mlx.core as mx
import numpy as np
import pytest

from core.quantize.rotate.turn import can_turn, seeded_rotation


def _matrix(size: int, *, seed: int = 7, name: str = "residual") -> np.ndarray:
    with mx.stream(mx.cpu):
        unit = mx.array(np.eye(size), dtype=mx.float64)
    rotation = seeded_rotation(size, seed=seed, name=name)
    return np.array(rotation.of_rows(unit, dtype=mx.float64))


@pytest.mark.parametrize("size", [1, 2, 3, 18, 64, 80, 96, 576, 720])
def test_it_is_orthogonal_and_spreads_each_channel_over_all(size: int) -> None:
    matrix = _matrix(size)
    assert np.abs(matrix @ matrix.T - np.eye(size)).max() < 1e-11
    assert np.abs(matrix).max() <= np.sqrt(2 / size) + 1e-9


def test_columns_are_turned_by_the_same_matrix() -> None:
    x = np.random.default_rng(0).standard_normal((2, 48, 5))
    with mx.stream(mx.cpu):
        found = seeded_rotation(48, seed=7, name="residual").of_columns(
            mx.array(x, dtype=mx.float64), dtype=mx.float64
        )
    assert np.abs(np.array(found) - _matrix(48).T @ x).max() < 1e-12


def test_a_gain_comes_before_the_rotation() -> None:
    x, gain = (np.random.default_rng(seed).standard_normal((4, 24)) for seed in (0, 1))
    with mx.stream(mx.cpu):
        found = seeded_rotation(24, seed=7, name="residual").of_rows(
            mx.array(x, dtype=mx.float64),
            dtype=mx.float64,
            gain=mx.array(gain[0], dtype=mx.float64),
        )
    assert np.abs(np.array(found) - (x * gain[0]) @ _matrix(24)).max() < 1e-12


def test_many_rows_are_worked_on_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x = mx.random.normal((50, 32), key=mx.random.key(0))
    rotation = seeded_rotation(32, seed=1, name="residual")
    whole = rotation.of_rows(x, dtype=mx.float32)
    monkeypatch.setattr("core.quantize.rotate.turn._PIECE", 7 * 32)
    monkeypatch.setattr("core.quantize.rotate.turn._LARGEST_PIECE", 7 * 32)
    assert mx.array_equal(rotation.of_rows(x, dtype=mx.float32), whole).item()


def test_seed_and_name_choose_the_matrix() -> None:
    assert np.array_equal(_matrix(64), _matrix(64))
    assert not np.array_equal(_matrix(64), _matrix(64, seed=8))
    assert not np.array_equal(_matrix(64), _matrix(64, name="values"))


@pytest.mark.parametrize(
    ("size", "dtype", "digest"),
    [
        (64, mx.bfloat16, "c43d90056775c17a"),
        (576, mx.float16, "95d50ac0a440b7df"),
        (80, mx.float32, "09a3ab96dc8485cb"),
    ],
)
def test_the_bytes_are_the_same_on_every_machine(size: int, dtype: mx.Dtype, digest: str) -> None:
    numbers = (np.arange(3 * size) * 7919 % 1009 - 504).reshape(3, size) / 64
    with mx.stream(mx.cpu):
        x = mx.array(numbers, dtype=mx.float32).astype(dtype)
        found = seeded_rotation(size, seed=42, name="residual").of_rows(x, dtype=dtype)
        wide = np.array(found.astype(mx.float32))
    assert hashlib.sha256(wide.tobytes()).hexdigest()[:16] == digest


def test_only_large_odd_factors_are_out_of_reach() -> None:
    assert can_turn(2880)
    assert can_turn(4096)
    assert not can_turn(2 * 1009)
    assert not can_turn(0)
