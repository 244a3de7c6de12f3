"""Recurrent layers as operations: Mamba-2, scans token by token, short convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.fit.shapes import FLOAT32, Scan

if TYPE_CHECKING:
    from core.fit.shapes import Ssd, State
    from core.fit.steps.pieces import Pieces

_BLOCK = 256  # tokens that Mamba-2 relates to each other directly; mlx_lm/models/ssm.py
_PIECES = 16  # in which the states of a scan are written


def write_state(p: Pieces, shape: State, x: int, hidden: int) -> int:
    """Write a convolution, or a recurrence: one kernel, or a chain of operations for each token."""
    if isinstance(shape, Scan):
        return _write_scan(p, shape, x, hidden)
    projected = p.linear(x, max(shape.width, hidden))
    gated = p.copy(projected, hidden)
    mixed = _convolve(p, gated, hidden, held=True)
    out = p.tape.op(hidden * p.step.numbers, mixed, projected, dispatches=2)
    return out if p.ends else p.linear(out, hidden)


def write_ssd(p: Pieces, shape: Ssd, x: int, hidden: int) -> int:
    """Write Mamba-2: in a block of tokens a matrix of all pairs a head, between blocks a state.

    Nothing in a step reads the last state, so MLX computes it at the end, for all layers; what it
    is made of stays until then.
    """
    tape, step = p.tape, p.step
    inner = shape.heads * shape.head_dim
    size = inner * step.tokens * step.rows * FLOAT32
    projected = p.linear(x, shape.width + shape.heads)
    mixed = _convolve(p, projected, shape.width - inner, held=True)
    weighted = tape.op(size, mixed, dispatches=12)
    if step.tokens > 1:
        tape.keep(mixed)
        tape.keep(weighted)
    outs = _blocks(p, shape, mixed, weighted)
    if p.ends:
        return outs[-1]
    joined = tape.op(size, *outs, dispatches=2 + len(outs))
    direct = tape.op(size, mixed, dispatches=3)
    summed = tape.op(size, joined, direct, overwrites=True)
    gated = tape.op(inner * step.numbers, summed, projected, dispatches=3, overwrites=True)
    return p.linear(p.norm(gated, inner), hidden)


def _blocks(p: Pieces, shape: Ssd, mixed: int, weighted: int) -> list[int]:
    """Write all blocks of a step and return what each gives."""
    wide = p.step.rows * FLOAT32
    state = p.tape.given(shape.heads * shape.head_dim * shape.state_dim * wide)
    outs = []
    for start in range(0, p.step.tokens, _BLOCK):
        tokens = min(_BLOCK, p.step.tokens - start)
        last = start + tokens == p.step.tokens
        y, state = _block(p, shape, (mixed, weighted, state), tokens=tokens, last=last)
        outs.append(y)
    p.tape.keep(state)
    return outs


def _block(
    p: Pieces, shape: Ssd, read: tuple[int, int, int], *, tokens: int, last: bool
) -> tuple[int, int]:
    """Write one block and return what it gives and the new state (ssm.py, `_step`)."""
    mixed, weighted, state = read
    tape, wide = p.tape, p.step.rows * FLOAT32
    inner = shape.heads * shape.head_dim
    kept = inner * shape.state_dim * wide
    if tokens == 1:
        new = tape.op(kept, weighted, state, dispatches=40)
        return tape.op(inner * wide, new, dispatches=3), new
    surrogate, decay = _pairs(p, shape, mixed, tokens)
    if last:
        tape.keep(decay)
    y = tape.op(inner * tokens * wide, surrogate, weighted, dispatches=4)
    keys = tape.op(shape.heads * shape.state_dim * tokens * wide, mixed, dispatches=5)
    faded = tape.op(inner * tokens * wide, weighted, decay, dispatches=6)
    new = tape.op(kept, faded, keys, dispatches=3)
    before = tape.op(inner * tokens * wide, state, mixed, dispatches=12)
    new = tape.op(kept, new, state, dispatches=4, overwrites=True)
    scaled = tape.op(inner * tokens * wide, before, dispatches=2, overwrites=True)
    return tape.op(inner * tokens * wide, y, scaled, dispatches=2, overwrites=True), new


def _pairs(p: Pieces, shape: Ssd, mixed: int, tokens: int) -> tuple[int, int]:
    """Write the matrices over all pairs of tokens: how much one adds to another, and its decay."""
    tape, wide = p.tape, p.step.rows * FLOAT32
    pairs = shape.heads * tokens * tokens * wide
    products = tape.op(shape.groups * tokens * tokens * wide, mixed, dispatches=6)
    repeated = tape.op(pairs, products, dispatches=4)
    spread = tape.op(pairs, dispatches=6)
    lower = tape.op(pairs, spread, dispatches=6, overwrites=True)
    sums = tape.op(pairs, lower)
    masked = tape.op(pairs, sums, dispatches=8, overwrites=True)
    decay = tape.op(pairs, masked, overwrites=True)
    joint = tape.op(pairs, repeated, decay, dispatches=2, overwrites=True)
    return tape.op(pairs, joint, dispatches=6, overwrites=True), decay


def _convolve(p: Pieces, x: int, width: float, *, held: bool) -> int:
    """Write a convolution over the last tokens.

    Args:
        p: where to.
        x: its input.
        width: numbers a token.
        held: whether the cache keeps a view of the input, and with it all of it until the next
            step.
    """
    size, step = width * p.step.numbers, p.step
    before = p.tape.given(size if held and step.before >= step.tokens else 0)
    masked = p.tape.op(size, x, dispatches=4)
    joined = p.tape.op(size, masked, before, dispatches=3)
    if held:
        p.tape.keep(joined)
    else:
        p.tape.op(0, joined, dispatches=2)
    return p.tape.op(size, joined, dispatches=3)


def _write_scan(p: Pieces, shape: Scan, x: int, hidden: int) -> int:
    """Write a recurrence token by token.

    MLX computes the chain of states first and what is read off them after it, so that all of them
    are there at once, where there is no kernel for the whole.
    """
    step, tape = p.step, p.tape
    width = max(shape.width, hidden)
    mixed = _convolve(p, p.linear(x, width), width, held=not shape.fused)
    size = step.rows * shape.state_size * (shape.state_bytes or step.float_bytes)
    before = tape.given(size)
    if step.gpu and shape.fused:
        states = [tape.op(size, mixed, before)]
        tape.keep(states[0])
    else:
        states = _chain(p, size, mixed, before)
        tape.keep(tape.op(size, *states))
    y = tape.op(width * step.numbers, mixed, *states, dispatches=4)
    return y if p.ends else p.linear(p.norm(y, width), hidden)


def _chain(p: Pieces, size: int, x: int, before: int) -> list[int]:
    """Write the states of all tokens in a few pieces: they come to be one after the other."""
    pieces = min(p.step.tokens, _PIECES)
    each = p.step.tokens / pieces
    made: list[int] = []
    for _ in range(pieces):
        last = made[-1] if made else before
        made.append(p.tape.op(size * each, x, last, dispatches=int(40 * each)))
    return made
