"""Codes in MLX's layout, at every width, group and stored type."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from core.quantize.codes import Rounded, pack_codes, stored, unpack_codes
from core.quantize.form import GROUPS, WIDTHS

_TYPES = (mx.float16, mx.bfloat16, mx.float32)


@pytest.mark.parametrize("bits", WIDTHS["affine"])
@pytest.mark.parametrize("group", GROUPS["affine"])
@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_mlx_unpacks_what_was_packed_to_the_bit(bits: int, group: int, dtype: mx.Dtype) -> None:
    rng = np.random.default_rng(bits)
    codes = rng.integers(0, 2**bits, (3, 5, 256), dtype=np.uint8)
    shape = (3, 5, 256 // group)
    rounded = Rounded(
        codes=codes,
        scales=stored(rng.random(shape).astype(np.float32), dtype),
        biases=stored(rng.standard_normal(shape).astype(np.float32), dtype),
    )
    packed = rounded.packed(bits, dtype)
    assert packed["scales"].dtype == packed["biases"].dtype == dtype
    found = mx.dequantize(
        packed["weight"], packed["scales"], packed["biases"], group_size=group, bits=bits
    )
    spread = mx.array(codes.astype(np.float32)).astype(dtype).reshape(*shape, group)
    expected = spread * packed["scales"][..., None] + packed["biases"][..., None]
    assert found.dtype == dtype
    assert mx.array_equal(found, expected.reshape(codes.shape)).item()


@pytest.mark.parametrize("bits", WIDTHS["affine"])
def test_what_mlx_packed_is_unpacked_and_packed_again_to_the_same_words(bits: int) -> None:
    words, *_ = mx.quantize(mx.random.normal((4, 256), key=mx.random.key(0)), 64, bits)
    assert mx.array_equal(pack_codes(unpack_codes(words, bits), bits), words).item()


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_numbers_are_rounded_to_a_stored_type_as_mlx_rounds_them(dtype: mx.Dtype) -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.standard_normal(4000), [0, -0.0, 1 + 2**-9, 1 + 2**-8, 6e-6, 1e5]])
    values = values.astype(np.float32)
    expected = np.array(mx.array(values).astype(dtype).astype(mx.float32))
    assert np.array_equal(stored(values, dtype), expected)
