"""The feed-forward parts of a model's layers: dense, or experts of which some are chosen.

They keep nothing of a row; what they need while they compute is all that matters here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.fit.config import MOST_LAYERS
from core.fit.families.attention import hidden_size
from core.fit.shapes import Feed

if TYPE_CHECKING:
    from core.fit.config import Fields

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "moe_topk",
    "moe_k",
    "moe_top_k",
    "top_k_experts",
)
_EXPERT_WIDTH = ("moe_intermediate_size", "expert_ffn_hidden_size", "ffn_hidden_size")
_SHARED_WIDTH = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "share_expert_dim",
    "shared_intermediate_size",
)
_SHARED = ("n_shared_experts", "num_shared_experts", "num_shared_expert")
_DENSE_FIRST = ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")
_WIDTH = (
    "block_ff_dim",
    "intermediate_size",
    "dense_intermediate_size",
    "ff_intermediate_size",
    "ffn_dim",
    "ffn_hidden_size",
    "n_inner",
)


def read_feeds(c: Fields, count: int) -> list[Feed]:
    """Return the feed-forward part of each of `count` layers."""
    dense = Feed(width=_width(c))
    experts = c.largest(*_EXPERTS, default=0)
    if experts < 2:
        return [dense] * count
    sparse = _sparse(c, experts)
    return [sparse if _is_sparse(c, i) else dense for i in range(count)]


def _width(c: Fields) -> int:
    return c.largest(*_WIDTH, default=0) or 4 * hidden_size(c)


def chosen_experts(c: Fields) -> int:
    """Return how many experts compute a token; 1 when it is not told."""
    return max(1, c.largest(*_CHOSEN, default=1))


def _sparse(c: Fields, experts: int) -> Feed:
    chosen = min(experts, chosen_experts(c))
    width = c.largest(*_EXPERT_WIDTH, default=0) or _width(c)
    shared = c.largest(*_SHARED_WIDTH, default=0) or width * c.largest(*_SHARED, default=0)
    return Feed(width=chosen * width, experts=experts, chosen=chosen, shared_width=shared)


def _is_sparse(c: Fields, index: int) -> bool:
    """Return whether a layer has experts, by the rules that configs know."""
    kinds = c.words("mlp_layer_types")
    if kinds is not None:
        return index >= len(kinds) or kinds[index] == "sparse"
    if index < c.largest(*_DENSE_FIRST, default=0):
        return False
    if c.has("mlp_only_layers") and index in (c.numbers("mlp_only_layers") or []):
        return False
    step = c.whole("decoder_sparse_step", default=1, high=MOST_LAYERS)
    if c.has("expert_layer_period"):
        period = c.whole("expert_layer_period", high=MOST_LAYERS)
        return index % period == c.whole("expert_layer_offset", default=0, low=0)
    return (index + 1) % step == 0
