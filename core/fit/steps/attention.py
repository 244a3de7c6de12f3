"""Attention layers as operations: full, sliding, shared and latent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.fit.shapes import Attention
from core.fit.steps.pieces import is_fused

if TYPE_CHECKING:
    from core.fit.shapes import Latent
    from core.fit.steps.pieces import Pieces


def write_attention(p: Pieces, shape: Attention, x: int, hidden: int) -> int:
    """Write attention over keys and values of each head."""
    width = shape.heads * shape.head_dim
    q, k, v = _project(p, shape, x)
    q = p.rotate(q, width)
    if not shape.shared:
        per_k = shape.kv_heads * p.form.vector_bytes(shape.head_dim)
        per_v = shape.kv_heads * p.form.vector_bytes(shape.value_dim)
        k = p.remember(p.rotate(k, shape.kv_heads * shape.head_dim), per_k, shape.window)
        v = p.remember(v, per_v, shape.window)
    if p.ends:
        return k
    out = p.attend(q, k, v, shape)
    return p.linear(p.copy(out, shape.heads * shape.value_dim), hidden)


def _project(p: Pieces, shape: Attention, x: int) -> tuple[int, int, int]:
    """Write the projections, and the norms of queries and keys where there are any."""
    width, kept = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    values = shape.kv_heads * shape.value_dim
    if shape.shared:
        q, k, v = p.linear(x, width), x, x
    elif p.step.traits.joined_heads:
        q = k = v = p.linear(x, width + kept + values)
    else:
        q, k, v = p.linear(x, width), p.linear(x, kept), p.linear(x, values)
    if p.step.traits.query_norm:
        q = p.norm(q, width)
        k = k if shape.shared else p.norm(k, kept)
    return q, k, v


def write_latent(p: Pieces, shape: Latent, x: int, hidden: int) -> int:
    """Write latent attention. Its cache holds compressed vectors, or keys and values."""
    queries = x
    if shape.query_rank is not None:
        queries = p.norm(p.linear(x, shape.query_rank), shape.query_rank)
    q = p.linear(queries, shape.heads * (shape.nope_dim + shape.rope_dim))
    compressed = p.linear(x, shape.rank + shape.rope_dim)
    latent = p.norm(compressed, shape.rank)
    rotated = p.rotate(q, shape.heads * shape.rope_dim)
    key = p.rotate(compressed, shape.rope_dim)
    write = _write_expanded if shape.expanded else _write_absorbed
    out = write(p, shape, (q, rotated), (latent, key))
    if p.ends:
        return out
    return p.linear(p.copy(out, shape.heads * shape.value_dim), hidden)


def _write_absorbed(
    p: Pieces, shape: Latent, queries: tuple[int, int], kept: tuple[int, int]
) -> int:
    """Write attention whose mask is made of the scores of the rotated parts."""
    (q, rotated), (latent, key), heads = queries, kept, shape.heads
    latents = p.remember(latent, shape.rank * p.step.float_bytes)
    keys = p.remember(key, shape.rope_dim * p.step.float_bytes)
    if p.ends:
        return latents
    size = p.scores_bytes(heads, p.step.length)
    scaled = p.tape.op(heads * shape.rope_dim * p.step.numbers, rotated, overwrites=True)
    by_place = p.tape.op(size, scaled, keys, dispatches=3)
    by_place = p.hide(by_place, heads, p.step.length)
    if p.step.tokens == 1:
        asked = p.linear(q, heads * shape.rank)
        inner = Attention(heads=heads, kv_heads=1, head_dim=shape.rank, value_dim=shape.rank)
        return _attend_masked(p, inner, (asked, latents, latents), by_place)
    each = p.step.rows * heads * p.step.length * p.step.float_bytes
    k = p.tape.op(each * shape.nope_dim, latents, dispatches=3)
    v = p.tape.op(each * shape.value_dim, latents, dispatches=3)
    inner = Attention(
        heads=heads, kv_heads=heads, head_dim=shape.nope_dim, value_dim=shape.value_dim
    )
    return _attend_masked(p, inner, (q, k, v), by_place)


def _attend_masked(p: Pieces, shape: Attention, qkv: tuple[int, int, int], mask: int) -> int:
    """Write attention with an additive mask as large as its scores."""
    q, k, v = qkv
    out = shape.value_dim * shape.heads * p.step.numbers
    if p.step.gpu and is_fused(shape, p.step.tokens):
        return p.tape.op(out, q, k, v, mask)
    size = p.scores_bytes(shape.heads, p.step.length)
    scaled = p.tape.op(shape.head_dim * shape.heads * p.step.numbers, q, dispatches=2)
    scores = p.tape.op(size, scaled, k, dispatches=5)
    scores = p.tape.op(size, scores, mask, overwrites=True)
    return p.tape.op(out, p.tape.op(size, scores, overwrites=True), v, dispatches=4)


def _write_expanded(
    p: Pieces, shape: Latent, queries: tuple[int, int], kept: tuple[int, int]
) -> int:
    """Write attention over keys and values that are unfolded before the cache."""
    (q, rotated), (latent, key), heads = queries, kept, shape.heads
    size = shape.nope_dim + shape.rope_dim
    unfolded = p.linear(latent, heads * (shape.nope_dim + shape.value_dim))
    repeated = p.tape.op(heads * shape.rope_dim * p.step.numbers, key, dispatches=3)
    whole = p.tape.op(heads * size * p.step.numbers, unfolded, repeated, dispatches=3)
    keys = p.remember(whole, heads * p.form.vector_bytes(size))
    values = p.remember(unfolded, heads * p.form.vector_bytes(shape.value_dim))
    if p.ends:
        return keys
    asked = p.tape.op(heads * size * p.step.numbers, q, rotated, dispatches=2)
    inner = Attention(heads=heads, kv_heads=heads, head_dim=size, value_dim=shape.value_dim)
    return p.attend(asked, keys, values, inner)
