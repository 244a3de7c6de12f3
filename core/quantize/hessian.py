"""Second moments of a layer's inputs, and what error feedback needs of them.

`I` inputs of a layer, `O` outputs, `N` tokens. Decompositions are NumPy's: MLX has them on CPUs
only, and the same linear algebra on every device gives the same codes.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from core.quantize.codes import Floats, as_floats

DAMPING = 0.01  # of the mean diagonal
_DOUBLE_UP_TO = 4096  # inputs; wider matrices are decomposed in float32, at half the memory


@dataclass(frozen=True, kw_only=True)
class Moments:
    """What a layer's calibration inputs say about the cost of its errors."""

    hessian: Floats
    """Mean of x x^T over the inputs as the quantized model makes them, [I, I]."""
    drift: Floats | None
    """Mean of x (x' - x)^T, where x' is what the original model makes of the same token, [I, I];
    None where tokens cannot be paired."""
    tokens: int
    """`N`."""


def moments(inputs: mx.array, original: mx.array | None = None) -> Moments:
    """Return the moments of inputs [N, I].

    Args:
        inputs: as the quantized model makes them.
        original: as the original model makes them, the same tokens in the same order.
    """
    inputs = inputs.astype(mx.float32)
    tokens = inputs.shape[0]
    hessian = as_floats(inputs.T @ inputs) / np.float32(max(tokens, 1))
    drift = None
    if original is not None:
        apart = original.astype(mx.float32) - inputs
        drift = as_floats(inputs.T @ apart) / np.float32(max(tokens, 1))
    return Moments(hessian=hessian, drift=drift, tokens=tokens)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What errors of a layer's weights cost: a damped Hessian H = U diag(d) U^T."""

    hessian: Floats
    """H, positive definite, [I, I]."""
    upper: Floats
    """U, unit upper triangular, [I, I]."""
    pivots: Floats
    """d, [I]."""

    def losses(self, wanted: Floats, found: Floats) -> Floats:
        """Return for each output (w - q) H (w - q)^T of weights [O, I]: [O]."""
        missed = wanted - found
        found: Floats = np.einsum("oi,oi->o", missed @ self.hessian, missed)
        return found


def damped(hessian: Floats, damping: float = DAMPING) -> Floats:
    """Return a Hessian [I, I] that is symmetric, with something added to its diagonal.

    An input that is always zero (a dead channel) gets the mean of the diagonal: errors there cost
    nothing, but the matrix must be positive definite.
    """
    found: Floats = np.float32(0.5) * (hessian + hessian.T)
    diagonal = np.diagonal(found).copy()
    mean = diagonal.mean()
    extra = np.where(diagonal <= 0, mean, np.float32(damping) * mean)
    found[np.diag_indices_from(found)] = np.maximum(diagonal, 0) + extra
    return found


def metric_of(hessian: Floats, damping: float = DAMPING) -> Metric:
    """Return what errors cost on inputs with a Hessian [I, I].

    Raises:
        np.linalg.LinAlgError: it is not positive definite, even damped.
    """
    known = damped(hessian, damping)
    upper = np.linalg.cholesky(known[::-1, ::-1].astype(_exact(known)))[::-1, ::-1]
    pivots = np.diagonal(upper).copy()
    if not np.isfinite(pivots).all() or pivots.min() <= 0:
        raise np.linalg.LinAlgError("not positive definite")
    return Metric(
        hessian=known,
        upper=(upper / pivots).astype(np.float32),
        pivots=(pivots**2).astype(np.float32),
    )


def correction(metric: Metric, drift: Floats) -> Floats:
    """Return C [I, I]: W + W C makes of the quantized model's inputs what W makes of the original.

    The least-squares solution, held near W by the damping of the Hessian.

    Args:
        metric: of the quantized model's inputs.
        drift: of these inputs, [I, I].
    """
    exact = _exact(drift)
    step = np.linalg.solve(metric.hessian.astype(exact), drift.astype(exact))
    return np.ascontiguousarray(step.T.astype(np.float32))


def _exact(matrix: Floats) -> type:
    return np.float64 if len(matrix) <= _DOUBLE_UP_TO else np.float32
