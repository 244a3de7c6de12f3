"""Rounding with error feedback: what rounding one input's weights loses, later ones make good.

The loss of a layer with inputs X is the mean of |(W - Q) x|^2 = tr((W - Q) H (W - Q)^T), with the
Hessian H = mean x x^T. Columns are rounded one after another against the errors so far (Frantar et
al. 2022, arXiv:2210.17323, in the form without an inverse of Chee et al. 2023, arXiv:2307.13304);
then codes, scales and biases are improved in turn by exact coordinate steps, which only ever lower
the loss. `O` outputs, `I` inputs, `S` numbers that share a scale, `G` groups of a row. Weights lie
transposed here, [I, O]: what is done to one input runs over contiguous memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from core.quantize.clip import fit_scales, nearest, safe_scale
from core.quantize.codes import Floats, Rounded, stored
from core.quantize.hessian import Metric

PASSES = 3  # of coordinate steps; later ones gain less than a percent


@dataclass(kw_only=True)
class _Work:
    """A matrix on its way to codes."""

    target: Floats
    """What is to be approximated, [I, O]."""
    hessian: Floats
    """[I, I]."""
    bits: int
    """Width of a code."""
    group: int
    """`S`."""
    dtype: mx.Dtype
    """Stored type of scales and biases."""
    codes: Floats
    """[I, O], whole numbers."""
    scales: Floats
    """[G, O]."""
    biases: Floats
    """[G, O]."""

    def parts(self) -> list[tuple[int, slice]]:
        """Return each group's number and its place among the inputs."""
        size = self.group
        return [(g, slice(g * size, (g + 1) * size)) for g in range(len(self.scales))]

    def values(self, group: int, part: slice) -> Floats:
        """Return the weights that a group's codes stand for, [S, O]."""
        found: Floats = self.codes[part] * self.scales[group] + self.biases[group]
        return found


def feed_back(
    target: Floats,
    metric: Metric,
    *,
    bits: int,
    group_size: int,
    dtype: mx.Dtype,
    passes: int = PASSES,
) -> Rounded:
    """Return weights [O, I] rounded with error feedback. Each output is rounded by itself.

    Args:
        target: the weights, or what should stand for them on these inputs.
        metric: what errors cost.
        bits: width of a code.
        group_size: numbers that share a scale.
        dtype: stored type of scales and biases.
        passes: how often codes and scales are improved afterwards.
    """
    outputs, inputs = target.shape
    groups = (inputs // group_size, outputs)
    work = _Work(
        target=np.ascontiguousarray(target.T),
        hessian=metric.hessian,
        bits=bits,
        group=group_size,
        dtype=dtype,
        codes=np.empty((inputs, outputs), np.float32),
        scales=np.empty(groups, np.float32),
        biases=np.empty(groups, np.float32),
    )
    _round_in_turn(work, metric)
    _improve(work, passes)
    return Rounded(
        codes=np.ascontiguousarray(work.codes.T).astype(np.uint8),
        scales=np.ascontiguousarray(work.scales.T),
        biases=np.ascontiguousarray(work.biases.T),
    )


def _round_in_turn(work: _Work, metric: Metric) -> None:
    missed = np.zeros_like(work.target)
    for group, part in work.parts():
        done = slice(0, part.start)
        wanted = work.target[part] + metric.upper[done, part].T @ missed[done]
        work.scales[group], work.biases[group] = fit_scales(
            wanted, metric.pivots[part], bits=work.bits, dtype=work.dtype
        )
        _round_group(work, group, part, wanted, metric.upper[part, part], missed[part])


def _round_group(
    work: _Work, group: int, part: slice, wanted: Floats, factor: Floats, missed: Floats
) -> None:
    """Round a group's columns in turn; `missed` [S, O] is filled with their errors."""
    codes, target = work.codes[part], work.target[part]
    scale, bias = work.scales[group], work.biases[group]
    for k in range(len(wanted)):
        aim = wanted[k] + factor[:k, k] @ missed[:k] if k else wanted[k]
        codes[k] = nearest(aim, scale, bias, work.bits)
        missed[k] = target[k] - (codes[k] * scale + bias)


def _improve(work: _Work, passes: int) -> None:
    missed = np.empty_like(work.target)
    for _ in range(passes):
        for group, part in work.parts():
            missed[part] = work.target[part] - work.values(group, part)
        pull = work.hessian @ missed  # half the negative gradient by the weights, [I, O]
        for group, part in work.parts():
            before = work.values(group, part)
            own = pull[part].copy()
            _refit_scales(work, group, part, own)
            _step_codes(work, group, part, own)
            pull -= work.hessian[:, part] @ (work.values(group, part) - before)


def _refit_scales(work: _Work, group: int, part: slice, pull: Floats) -> None:
    """Move a group's scales and biases to where the loss is least while its codes stay.

    A two-dimensional least-squares problem for every output; `pull` [S, O] is kept up.
    """
    near = work.hessian[part, part]
    codes = work.codes[part]
    by_code = near @ codes
    ones = near.sum(0)
    a11, a12, a22 = (codes * by_code).sum(0), ones @ codes, ones.sum()
    r1, r2 = (codes * pull).sum(0), pull.sum(0)
    determinant = a11 * a22 - a12 * a12
    good = determinant > 1e-6 * a11 * a22
    step = np.where(good, (r1 * a22 - r2 * a12) / np.where(good, determinant, 1), 0)
    scale, bias = work.scales[group], work.biases[group]
    new_scale = safe_scale((scale + step).astype(np.float32), work.dtype)
    up = new_scale - scale
    new_bias = stored((bias + (r2 - a12 * up) / a22).astype(np.float32), work.dtype)
    over = new_bias - bias
    change = up * up * a11 + 2 * up * over * a12 + over * over * a22 - 2 * (up * r1 + over * r2)
    take = (change < 0) & np.isfinite(new_bias) & np.isfinite(new_scale)
    up, over = np.where(take, up, 0), np.where(take, over, 0)
    work.scales[group], work.biases[group] = scale + up, bias + over
    pull -= by_code * up + ones[:, None] * over


def _step_codes(work: _Work, group: int, part: slice, pull: Floats) -> None:
    """Move each code of a group to where the loss is least while all others stay."""
    near = work.hessian[part, part]
    codes = work.codes[part]
    scale, bias = work.scales[group], work.biases[group]
    for k in range(len(codes)):
        aim = codes[k] * scale + bias + pull[k] / near[k, k]
        new = nearest(aim, scale, bias, work.bits)
        step = (new - codes[k]) * scale
        if step.any():
            codes[k] = new
            pull -= near[:, k, None] * step
