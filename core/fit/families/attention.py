"""Readers of models that attend: full, sliding, latent, shared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from core.fit.config import MOST_LAYERS, MOST_TOKENS, Fields
from core.fit.shapes import Attention, Latent, Mixer

Reader = Callable[[Fields], list[Mixer]]

_FULL = "full_attention"
_SLIDING = "sliding_attention"
_MOST_LOOPS = 64


def layer_count(c: Fields) -> int:
    """Return how many layers there are."""
    names = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers")
    return c.whole(*names, high=MOST_LAYERS)


def hidden_size(c: Fields) -> int:
    """Return the numbers a token between layers."""
    return c.whole("hidden_size", "n_embd", "d_model", "model_dim", "hidden_dim", "dim")


def heads(c: Fields, *, kv_heads: int | None = None) -> Attention:
    """Return attention as most models have it: grouped heads of one size."""
    count = c.whole("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads")
    names = ("num_key_value_heads", "n_kv_heads", "num_kv_heads", "kv_n_heads")
    size = c.whole("head_dim", "hidden_size_per_head", default=max(1, hidden_size(c) // count))
    kept = c.whole(*names, default=count) if kv_heads is None else kv_heads
    return Attention(
        heads=count,
        kv_heads=kept,
        head_dim=size,
        value_dim=c.whole("v_head_dim", default=size),
    )


def full(c: Fields) -> list[Mixer]:
    """Return the same full attention in every layer."""
    return [heads(c)] * layer_count(c)


def by_hidden(c: Fields) -> list[Mixer]:
    """Return full attention whose head size is the hidden size by the heads, whatever is said."""
    plain = heads(c)
    size = max(1, hidden_size(c) // plain.heads)
    return [replace(plain, head_dim=size, value_dim=size)] * layer_count(c)


def every_head(c: Fields) -> list[Mixer]:
    """Return full attention whose keys and values are not grouped."""
    plain = heads(c)
    return [replace(plain, kv_heads=plain.heads)] * layer_count(c)


def window_of(c: Fields, *names: str, default: int | None = None) -> int:
    """Return the size of the window."""
    chosen = names or ("sliding_window",)
    return c.whole(*chosen, default=default, high=MOST_TOKENS)


def by_types(c: Fields, types: list[str] | None = None) -> list[Mixer]:
    """Return full or sliding attention by the names in `layer_types`; without them all is full."""
    named = types or c.words("layer_types", count=layer_count(c))
    if named is None or _SLIDING not in named:
        return full(c)
    plain = heads(c)
    sliding = replace(plain, window=window_of(c))
    return [sliding if name == _SLIDING else plain for name in named[: layer_count(c)]]


def _repeated(pattern: list[str], c: Fields) -> list[str]:
    return [pattern[i % len(pattern)] for i in range(layer_count(c))]


def one_in(period: int, c: Fields) -> list[str]:
    """Return the types of layers of which the last of each `period` is full."""
    return _repeated([_SLIDING] * (period - 1) + [_FULL], c)


def three_and_one(c: Fields) -> list[Mixer]:
    """Return layers by their types, by default three sliding and one full."""
    return by_types(c, c.words("layer_types", count=layer_count(c)) or one_in(4, c))


def alternating(c: Fields) -> list[Mixer]:
    """Return layers by their types, by default sliding and full in turn (gpt-oss)."""
    named = c.words("layer_types", count=layer_count(c))
    return by_types(c, named or _repeated([_SLIDING, _FULL], c))


def by_period(period: int, head_dim: int, window: int) -> Reader:
    """Return a reader of models with a `sliding_window_pattern`: its every n-th layer is full."""

    def read(c: Fields) -> list[Mixer]:
        every = c.whole("sliding_window_pattern", default=period, high=MOST_LAYERS)
        size = c.whole("head_dim", default=head_dim)
        plain = replace(heads(c), head_dim=size, value_dim=size)
        slides = replace(
            plain, window=window_of(c, "sliding_window", "window_size", default=window)
        )
        return [slides if (i + 1) % every else plain for i in range(layer_count(c))]

    return read


def exaone4(c: Fields) -> list[Mixer]:
    """Return layers by a pattern of letters, `LLLG`; without one all is full."""
    pattern = c.text("sliding_window_pattern")
    if not pattern:
        return full(c)
    plain = heads(c)
    sliding = replace(plain, window=window_of(c))
    letters = [pattern[i % len(pattern)] for i in range(layer_count(c))]
    return [sliding if letter == "L" else plain for letter in letters]


def gemma3n(c: Fields) -> list[Mixer]:
    """Return layers by their types, of which the last ones read what earlier ones keep."""
    return _share_last(by_types(c), c.whole("num_kv_shared_layers", default=0, low=0))


def gemma4(c: Fields) -> list[Mixer]:
    """Return sliding and full layers with sizes of their own, the last ones shared."""
    types = c.words("layer_types", count=layer_count(c)) or one_in(
        c.whole("sliding_window_pattern", default=5, high=MOST_LAYERS), c
    )
    size = c.whole("head_dim", default=256)
    large = c.whole("global_head_dim", default=512)
    query, kept = (
        c.whole("num_attention_heads", default=8),
        c.whole("num_key_value_heads", default=1),
    )
    far = c.whole("num_global_key_value_heads", default=kept)
    if not c.flag("attention_k_eq_v"):
        far = kept
    sliding = Attention(
        heads=query, kv_heads=kept, head_dim=size, value_dim=size, window=window_of(c, default=512)
    )
    whole = Attention(heads=query, kv_heads=far, head_dim=large, value_dim=large)
    layers: list[Mixer] = [whole if name == _FULL else sliding for name in types]
    return _share_last(layers[: layer_count(c)], c.whole("num_kv_shared_layers", default=20, low=0))


def _share_last(layers: list[Mixer], count: int) -> list[Mixer]:
    """Let the last layers read what earlier ones of their kind keep."""
    first = max(0, len(layers) - count)
    return [
        replace(mixer, shared=True) if i >= first and isinstance(mixer, Attention) else mixer
        for i, mixer in enumerate(layers)
    ]


def mimo_flash(c: Fields) -> list[Mixer]:
    """Return full and sliding layers with sizes of their own (MiMo-V2-Flash)."""
    pattern = c.numbers("hybrid_layer_pattern", count=layer_count(c)) or [0] * layer_count(c)
    sliding = Attention(
        heads=c.whole("swa_num_attention_heads"),
        kv_heads=c.whole("swa_num_key_value_heads"),
        head_dim=c.whole("swa_head_dim"),
        value_dim=c.whole("swa_v_head_dim"),
        window=window_of(c, "sliding_window_size"),
    )
    return [sliding if mark == 1 else heads(c) for mark in pattern[: layer_count(c)]]


def step35(c: Fields) -> list[Mixer]:
    """Return full and sliding layers with groups of their own (Step-3.5)."""
    types = c.words("layer_types", count=layer_count(c)) or _repeated([_SLIDING, _FULL], c)
    whole = heads(c, kv_heads=c.whole("num_attention_groups"))
    groups = c.inner("attention_other_setting").whole(
        "num_attention_groups", default=whole.kv_heads
    )
    sliding = replace(whole, kv_heads=groups, window=window_of(c, default=512))
    return [sliding if name == _SLIDING else whole for name in types[: layer_count(c)]]


def llama4(c: Fields) -> list[Mixer]:
    """Return three layers that attend within chunks and one that attends to all, in turn."""
    plain = heads(c)
    chunked = replace(plain, window=window_of(c, "attention_chunk_size"))
    return [chunked if (i + 1) % 4 else plain for i in range(layer_count(c))]


def bigcode(c: Fields) -> list[Mixer]:
    """Return attention with one head of keys and values, unless told otherwise."""
    shared = c.flag("multi_query", default=True)
    return [heads(c, kv_heads=1 if shared else None)] * layer_count(c)


def plamo(c: Fields) -> list[Mixer]:
    """Return full attention in which `n_shared_head` queries share keys and values."""
    count = c.whole("num_attention_heads", default=32)
    return [heads(c, kv_heads=-(-count // c.whole("n_shared_head", default=8)))] * layer_count(c)


def dbrx(c: Fields) -> list[Mixer]:
    """Return full attention whose groups are told in `attn_config`."""
    return [heads(c, kv_heads=c.inner("attn_config").whole("kv_n_heads"))] * layer_count(c)


def qwen1(c: Fields) -> list[Mixer]:
    """Return full attention with `kv_channels` numbers a head."""
    count, size = c.whole("num_attention_heads", default=16), c.whole("kv_channels", default=128)
    plain = Attention(heads=count, kv_heads=count, head_dim=size, value_dim=size)
    return [plain] * layer_count(c)


def openelm(c: Fields) -> list[Mixer]:
    """Return full attention with heads of its own in every layer."""
    count, size = layer_count(c), c.whole("head_dim")
    query = c.numbers("num_query_heads", count=count) or []
    kept = c.numbers("num_kv_heads", count=count) or []
    return [
        Attention(heads=q, kv_heads=k, head_dim=size, value_dim=size)
        for q, k in zip(query[:count], kept[:count], strict=False)
    ]


def nemotron_nas(c: Fields) -> list[Mixer]:
    """Return full attention in the layers that have any."""
    plain = heads(c)
    found: list[Mixer] = []
    for block in c.items("block_configs", count=layer_count(c)):
        attention = block.inner("attention")
        if not attention.flag("no_op") and not attention.flag("replace_with_linear"):
            groups = attention.whole("n_heads_in_group")
            found.append(replace(plain, kv_heads=max(1, plain.heads // groups)))
    return found


def afm7(c: Fields) -> list[Mixer]:
    """Return full attention of which the last layers read what an earlier one keeps."""
    return _share_last(by_hidden(c), c.whole("num_kv_reuse_layers", default=0, low=0))


def looped(c: Fields) -> list[Mixer]:
    """Return layers that run several times, with a cache for each time (Nanbeige)."""
    weights = min(c.length("loop_loss_weights"), _MOST_LOOPS)
    return full(c) * (weights + 1 if weights else c.whole("num_loops", default=1, high=_MOST_LOOPS))


def loop_coder(c: Fields) -> list[Mixer]:
    """Return layers that run twice, the second time within a window (IQuest-Loop-Coder)."""
    plain = heads(c)
    again = replace(plain, window=window_of(c, "loop_window_size", default=64))
    return [*full(c), *([again] * layer_count(c))]


def minimax_m3(c: Fields) -> list[Mixer]:
    """Return full attention, in sparse layers with an index key beside the keys."""
    plain, inner = heads(c), c.inner("sparse_attention_config")
    index = inner.whole("sparse_index_dim", default=c.whole("index_head_dim", default=1))
    sparse = replace(plain, index_dim=index)
    given = inner if inner.has("sparse_attention_freq") else c
    marks = given.numbers("sparse_attention_freq", count=layer_count(c))
    if marks is not None:
        return [sparse if mark else plain for mark in marks[: layer_count(c)]]
    types = c.words("layer_types", count=layer_count(c)) or []
    if not types:
        return full(c)
    return [plain if name == _FULL else sparse for name in types[: layer_count(c)]]


def latent(c: Fields) -> Latent:
    """Return multi-head latent attention with DeepSeek's names; its defaults are mlx-lm's."""
    return Latent(
        heads=c.whole("num_attention_heads", default=32),
        nope_dim=c.whole("qk_nope_head_dim", default=c.whole("head_dim", default=128)),
        rope_dim=c.whole("qk_rope_head_dim", default=64, low=0),
        value_dim=c.whole("v_head_dim", default=c.whole("head_dim", default=128)),
        rank=c.whole("kv_lora_rank", default=512),
        query_rank=c.whole("q_lora_rank", default=1) if c.has("q_lora_rank") else None,
    )


def absorbed(c: Fields) -> list[Mixer]:
    """Return latent attention that keeps the compressed vector."""
    return [latent(c)] * layer_count(c)


def expanded(c: Fields) -> list[Mixer]:
    """Return latent attention that keeps keys and values of every head."""
    return [replace(latent(c), expanded=True)] * layer_count(c)


def minicpm3(c: Fields) -> list[Mixer]:
    """Return expanded latent attention whose values are as large as the heads."""
    plain = latent(c)
    size = max(1, hidden_size(c) // plain.heads)
    return [replace(plain, expanded=True, value_dim=size)] * layer_count(c)


def indexed(c: Fields) -> list[Mixer]:
    """Return latent attention with an index of keys (DeepSeek sparse attention)."""
    return [replace(latent(c), index_dim=c.whole("index_head_dim", default=128))] * layer_count(c)


def longcat(c: Fields) -> list[Mixer]:
    """Return two latent attentions a layer."""
    return absorbed(c) * 2


def gemma3(c: Fields) -> list[Mixer]:
    """Return sliding layers with a full one in every sixth; published configs leave sizes out."""
    outer = c.has("text_config")
    every = c.whole("sliding_window_pattern", default=6, high=MOST_LAYERS)
    size = c.whole("head_dim", default=256)
    plain = Attention(
        heads=c.whole("num_attention_heads", default=8 if outer else 4),
        kv_heads=c.whole("num_key_value_heads", default=4 if outer else 1),
        head_dim=size,
        value_dim=size,
    )
    slides = replace(plain, window=window_of(c, default=512))
    count = c.whole("num_hidden_layers", default=26, high=MOST_LAYERS)
    return [slides if (i + 1) % every else plain for i in range(count)]
