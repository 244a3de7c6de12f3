"""Orthogonal matrices of every size, drawn from a seed, and products with them.

A size n is 2^k * m with m odd. The matrix is `diag(signs) @ kron(H, C)`: signs from the seed,
Sylvester's Hadamard matrix H of order 2^k (scaled by 2^(-k/2)) and the discrete Hartley matrix C of
order m, C[i, j] = (cos + sin)(2 pi i j / m) / sqrt(m). Every entry is at most sqrt(2 / n), so that
one large channel is spread over all of them.

Products with H are k rounds of additions and subtractions in a fixed order, elementwise, on the
CPU: no BLAS and no kernel that chooses an order of its own. The signs come from SHAKE-256 and the
constants are rounded to 40 binary places. Hence the same seed gives the same bytes wherever
arithmetic is IEEE 754. `mx.hadamard_transform` is not used: on a CPU it corrupts the heap for some
sizes.

`R` rows, `n` size of the matrix.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import mlx.core as mx

LARGEST_ODD = 512
"""Largest odd factor of a size; a product costs as many operations per number."""

# Numbers that are worked on at once: few enough for a processor's cache, yet not so few that the
# graph of a large tensor grows beyond some thousand operations.
_PIECE, _LARGEST_PIECE, _PIECES = 1 << 20, 1 << 22, 32
_PLACES = 2.0**40


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """One orthogonal matrix Q."""

    size: int
    """`n`."""
    signs: mx.array
    """1 or -1 for each channel, [n]."""

    def of_rows(self, x: mx.array, *, dtype: mx.Dtype, gain: mx.array | None = None) -> mx.array:
        """Return `(x * gain) @ Q` along the last axis, lazily and a piece at a time.

        Args:
            x: [..., n].
            dtype: of the result.
            gain: what each channel is multiplied by first, [n], or None.
        """
        with mx.stream(mx.cpu):
            rows = x.reshape(-1, self.size)
            piece = min(max(x.size // _PIECES, _PIECE), _LARGEST_PIECE)
            count = max(piece // self.size, 1)
            working = working_type(x.dtype)
            factor = self.signs.astype(working)
            if gain is not None:
                factor = factor * gain.astype(working)
            pieces = [
                self._turned(rows[start : start + count].astype(working) * factor).astype(dtype)
                for start in range(0, rows.shape[0], count)
            ]
            return (pieces[0] if len(pieces) == 1 else mx.concatenate(pieces)).reshape(x.shape)

    def of_columns(self, x: mx.array, *, dtype: mx.Dtype) -> mx.array:
        """Return `Q.T @ x` along the last axis but one, lazily and a piece at a time.

        Args:
            x: [..., n, columns].
            dtype: of the result.
        """
        with mx.stream(mx.cpu):
            return self.of_rows(x.swapaxes(-1, -2), dtype=dtype).swapaxes(-1, -2)

    def _turned(self, x: mx.array) -> mx.array:
        """Return `x @ kron(H, C)`, [R, n], in the type of x.

        The channels are worked on as the first axis, so that every operation runs over the rows.
        """
        power, odd = factors(self.size)
        columns = mx.contiguous(x.T)
        if odd > 1:
            columns = _hartley(columns.reshape(power, odd, -1), odd)
        return _hadamard(columns.reshape(power, -1)).reshape(self.size, -1).T


def seeded_rotation(size: int, *, seed: int, name: str) -> Rotation:
    """Return a rotation.

    Args:
        size: `n`; see `can_turn`.
        seed: the same one gives the same matrix.
        name: what is rotated; each name has a matrix of its own.
    """
    words = hashlib.shake_256(f"mlxbun rotation {seed} {name}".encode()).digest((size + 7) // 8)
    bits = [words[index // 8] >> (index % 8) & 1 for index in range(size)]
    with mx.stream(mx.cpu):
        signs = mx.array([1.0 - 2.0 * bit for bit in bits], dtype=mx.float32)
    return Rotation(size=size, signs=signs)


def factors(size: int) -> tuple[int, int]:
    """Return a size as a power of two and an odd number."""
    power = size & -size
    return power, size // power


def can_turn(size: int) -> bool:
    """Return whether there is a matrix of this size."""
    return size > 0 and factors(size)[1] <= LARGEST_ODD


def working_type(dtype: mx.Dtype) -> mx.Dtype:
    """Return the type to compute in: its error is far below the rounding of the result's type."""
    return mx.float64 if dtype in (mx.float32, mx.float64) else mx.float32


def _hadamard(x: mx.array) -> mx.array:
    """Multiply H by columns, [2^k, ..].

    Each round combines neighbours and writes sums before differences; after k rounds every bit of
    the index is back in its place.
    """
    power = x.shape[0]
    for _ in range(power.bit_length() - 1):
        pairs = x.reshape(power // 2, 2, -1)
        even, other = pairs[:, 0], pairs[:, 1]
        x = mx.concatenate([even + other, even - other])
    return x * (1.0 / math.sqrt(power))


def _hartley(x: mx.array, odd: int) -> mx.array:
    """Multiply C by the second axis of columns, [2^k, m, ..]; C is symmetric."""
    total = mx.zeros_like(x)
    for index in range(odd):
        line = mx.array([_cas(index * other, odd) for other in range(odd)], dtype=mx.float64)
        total = total + x[:, index : index + 1] * line.astype(x.dtype)[None, :, None]
    return total


def _cas(step: int, odd: int) -> float:
    angle = 2.0 * math.pi * (step % odd) / odd
    value = (math.cos(angle) + math.sin(angle)) / math.sqrt(odd)
    return round(value * _PLACES) / _PLACES
