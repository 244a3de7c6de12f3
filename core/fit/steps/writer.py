"""Whole layers as operations, the feed-forward parts, and the logits at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.fit.shapes import FLOAT32, Attention, Latent, Ssd
from core.fit.steps.attention import write_attention, write_latent
from core.fit.steps.pieces import Pieces
from core.fit.steps.recurrent import write_ssd, write_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.fit.shapes import Feed, KvFormat, Layer, Mixer
    from core.fit.steps.pieces import Step
    from core.fit.tape import Tape

_SORTS_FROM = 64  # choices of experts; mlx_lm/models/switch_layers.py


def write_layers(
    tape: Tape, layers: Sequence[Layer], *, step: Step, form: KvFormat, hidden: int
) -> None:
    """Write the layers of a step, in the order they compute.

    A prefill chunk wants of the last layer only what it keeps; a decode step wants all of it.
    """
    pieces = Pieces(tape, step, form)
    x = tape.op(hidden * step.numbers)
    for i, layer in enumerate(layers):
        pieces.ends = step.tokens > 1 and i == len(layers) - 1
        x = _write_layer(pieces, layer, x, hidden)


def write_logits(tape: Tape, vocabulary: int, *, step: Step) -> None:
    """Write the logits of each row and what sampling makes of them: scaled, noise, their sum."""
    size = vocabulary * step.rows * step.float_bytes
    logits = tape.op(size, dispatches=4)
    scaled = tape.op(size, logits, dispatches=2, overwrites=True)
    noise = [tape.op(vocabulary * step.rows * FLOAT32) for _ in range(2)]
    tape.op(size, scaled, *noise)


def _write_layer(p: Pieces, layer: Layer, x: int, hidden: int) -> int:
    for mixer in layer.mixers:
        mixed = _write_mixer(p, mixer, p.norm(x, hidden), hidden)
        x = p.add(x, _post(p, mixed, hidden), hidden)
    if layer.feed is None or p.ends:
        return x
    fed = _write_feed(p, layer.feed, p.norm(x, hidden), hidden)
    return p.add(x, _post(p, fed, hidden), hidden)


def _post(p: Pieces, x: int, hidden: int) -> int:
    return p.norm(x, hidden) if p.step.traits.post_norms else x


def _write_mixer(p: Pieces, mixer: Mixer, x: int, hidden: int) -> int:
    if isinstance(mixer, Attention):
        return write_attention(p, mixer, x, hidden)
    if isinstance(mixer, Latent):
        return write_latent(p, mixer, x, hidden)
    if isinstance(mixer, Ssd):
        return write_ssd(p, mixer, x, hidden)
    return write_state(p, mixer, x, hidden)


def _write_feed(p: Pieces, feed: Feed, x: int, hidden: int) -> int:
    if not feed.experts:
        return _write_gated(p, x, feed.width, hidden)
    out = _write_experts(p, feed, x, hidden)
    if not feed.shared_width:
        return out
    return p.add(out, _write_gated(p, x, feed.shared_width, hidden), hidden)


def _write_gated(p: Pieces, x: int, width: int, hidden: int) -> int:
    """Write a gated feed-forward part; without a compiler the gate takes an array more."""
    size = width * p.step.numbers
    if p.step.traits.joined_gate:
        both = p.linear(x, 2 * width)
        return p.linear(p.tape.op(size, both, dispatches=4), hidden)
    gate, up = p.linear(x, width), p.linear(x, width)
    if not p.step.compiled:
        gate = p.tape.op(size, gate)
    return p.linear(p.tape.op(size, gate, up, dispatches=2, overwrites=True), hidden)


def _write_experts(p: Pieces, feed: Feed, x: int, hidden: int) -> int:
    """Write experts: tokens in the order of their experts, through them, and back."""
    tape, step = p.tape, p.step
    tokens = step.rows * step.tokens
    order = tape.op(feed.experts * tokens * FLOAT32, p.linear(x, feed.experts), dispatches=12)
    order = tape.op(feed.experts * tokens * FLOAT32, order, dispatches=6)
    size = feed.chosen * hidden * step.numbers
    sorts = tokens * feed.chosen >= _SORTS_FROM
    chosen = tape.op(size, x, order, dispatches=16) if sorts else x
    up, gate = p.linear(chosen, feed.width), p.linear(chosen, feed.width)
    act = tape.op(feed.width * step.numbers, gate, up, dispatches=2, overwrites=True)
    down = tape.op(size, act, dispatches=3)
    back = tape.op(size, down, dispatches=3) if sorts else down
    scaled = tape.op(size, back, order, dispatches=3, overwrites=True)
    return tape.op(hidden * step.numbers, scaled, dispatches=2)
