"""Readers of models with recurrent states: Mamba, gated delta nets, convolutions, and hybrids."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from core.fit.config import MOST_LAYERS
from core.fit.families.attention import heads, hidden_size, latent, layer_count, window_of
from core.fit.shapes import FLOAT32, Attention, Scan, Ssd, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.fit.config import Fields
    from core.fit.shapes import Mixer


def selective(c: Fields) -> Scan:
    """Return a Mamba mixer."""
    inner = c.whole("intermediate_size", "d_inner")
    size = inner * c.whole("state_size", "d_state", default=16)
    kernel = c.whole("conv_kernel", "d_conv", default=4)
    return _scan("mamba", narrow=(kernel - 1) * inner + size, width=inner, state=size)


def mamba(c: Fields) -> list[Mixer]:
    """Return the same Mamba mixer in every layer."""
    return [selective(c)] * layer_count(c)


def ssd(
    *, heads: int, head_dim: int, groups: int, state_dim: int, kernel: int, gathers: bool = True
) -> Ssd:
    """Return a Mamba-2 mixer.

    Args:
        heads: heads of the state.
        head_dim: size of each.
        groups: groups of heads that share B and C.
        state_dim: size of the state of each number.
        kernel: tokens that the convolution sees.
        gathers: whether B and C pass the convolution too.
    """
    inner = heads * head_dim
    mixed = inner + (2 * groups * state_dim if gathers else 0)
    return Ssd(
        name="mamba2",
        narrow=(kernel - 1) * mixed,
        wide=inner * state_dim,
        width=inner + mixed,
        heads=heads,
        head_dim=head_dim,
        groups=groups,
        state_dim=state_dim,
    )


def mamba2(c: Fields) -> list[Mixer]:
    """Return the same Mamba-2 mixer in every layer."""
    mixer = ssd(
        heads=c.whole("num_heads"),
        head_dim=c.whole("head_dim"),
        groups=c.whole("n_groups", default=1),
        state_dim=c.whole("ssm_state_size", "state_size"),
        kernel=c.whole("conv_kernel", default=4),
    )
    return [mixer] * layer_count(c)


def delta(c: Fields) -> Scan:
    """Return a gated delta net (Qwen3-Next, Qwen3.5, OLMo hybrid)."""
    key_heads, value_heads = c.whole("linear_num_key_heads"), c.whole("linear_num_value_heads")
    key, value = c.whole("linear_key_head_dim"), c.whole("linear_value_head_dim")
    mixed = 2 * key_heads * key + value_heads * value
    kernel = c.whole("linear_conv_kernel_dim", default=4)
    return _wide_scan(
        "gated delta net",
        narrow=(kernel - 1) * mixed,
        width=mixed + value_heads * value,
        state=value_heads * value * key,
    )


def qwen_next(c: Fields) -> list[Mixer]:
    """Return gated delta nets with full attention in every n-th layer."""
    period = c.whole("full_attention_interval", default=4, high=MOST_LAYERS)
    return _mixed(c, delta(c), heads(c), lambda i: (i + 1) % period == 0)


def olmo_hybrid(c: Fields) -> list[Mixer]:
    """Return gated delta nets and full attention by their types, by default every fourth."""
    types = c.words("layer_types", count=layer_count(c))
    if types is None:
        return _mixed(c, delta(c), heads(c), lambda i: i % 4 == 3)
    return _mixed(c, delta(c), heads(c), lambda i: types[i] != "linear_attention")


def lfm2(c: Fields) -> list[Mixer]:
    """Return short convolutions and full attention by their types."""
    width, kernel = hidden_size(c), c.whole("conv_L_cache", default=3)
    state = State(name="short convolution", narrow=(kernel - 1) * width, width=4 * width)
    numbers = c.numbers("full_attn_idxs")
    types = c.words("layer_types", count=layer_count(c)) or []
    attends = set(numbers or [i for i, name in enumerate(types) if name == "full_attention"])
    return _mixed(c, state, _by_hidden(c), lambda i: i in attends)


def jamba(c: Fields) -> list[Mixer]:
    """Return Mamba mixers with full attention in every n-th layer."""
    inner = c.whole("mamba_expand") * hidden_size(c)
    size = inner * c.whole("mamba_d_state")
    narrow = (c.whole("mamba_d_conv") - 1) * inner + size
    state = _scan("mamba", narrow=narrow, width=inner, state=size)
    types = c.words("layers_block_type", count=layer_count(c))
    if types is not None:
        return _mixed(c, state, _by_hidden(c), lambda i: types[i] == "attention")
    period = c.whole("attn_layer_period", high=MOST_LAYERS)
    first = c.whole("attn_layer_offset", low=0, high=MOST_LAYERS)
    return _mixed(c, state, _by_hidden(c), lambda i: i % period == first)


def _mamba_ssd(c: Fields) -> Ssd:
    """Return a Mamba-2 mixer with the names of Granite and Falcon."""
    count = c.whole("mamba_n_heads")
    return ssd(
        heads=count,
        head_dim=c.whole("mamba_d_head"),
        groups=c.whole("mamba_n_groups", default=1),
        state_dim=c.whole("mamba_d_state"),
        kernel=c.whole("mamba_d_conv", default=4),
    )


def granite_hybrid(c: Fields) -> list[Mixer]:
    """Return Mamba-2 mixers and full attention by their types."""
    types = c.words("layer_types", count=layer_count(c)) or ["attention"] * layer_count(c)
    if "mamba" not in types:
        return [_by_hidden(c)] * layer_count(c)
    return _mixed(c, _mamba_ssd(c), _by_hidden(c), lambda i: types[i] == "attention")


def falcon_h1(c: Fields) -> list[Mixer]:
    """Return a Mamba-2 mixer and full attention side by side in every layer."""
    return [mixer for _ in range(layer_count(c)) for mixer in (_mamba_ssd(c), heads(c))]


_NEMOTRON = {
    "attention": "*",
    "full_attention": "*",
    "mamba": "M",
    "linear_attention": "M",
    "conv": "M",
    "mlp": "-",
    "moe": "E",
}


def nemotron_pattern(c: Fields) -> list[str]:
    """Return one letter a block: `M` Mamba-2, `*` attention, `-` MLP, `E` experts."""
    names = c.words("layers_block_type") or c.words("layer_types")
    if c.has("hybrid_override_pattern"):
        text = c.text("hybrid_override_pattern")
        return list(text) if text is not None else c.words("hybrid_override_pattern") or []
    return [_NEMOTRON.get(name, "-") for name in names or []]


def nemotron_h(c: Fields) -> list[Mixer]:
    """Return the blocks that mix tokens; MLPs and experts are blocks of their own."""
    state = ssd(
        heads=c.whole("mamba_num_heads"),
        head_dim=c.whole("mamba_head_dim"),
        groups=c.whole("n_groups", default=1),
        state_dim=c.whole("ssm_state_size"),
        kernel=c.whole("conv_kernel", default=4),
    )
    by_letter: dict[str, Mixer] = {"M": state, "*": heads(c)}
    return [by_letter[letter] for letter in nemotron_pattern(c) if letter in by_letter]


def plamo2(c: Fields) -> list[Mixer]:
    """Return Mamba-2 mixers with full attention in every second layer."""
    state = ssd(
        heads=c.whole("mamba_num_heads", default=64),
        head_dim=c.whole("hidden_size_per_head", default=128),
        groups=1,
        state_dim=c.whole("mamba_d_state", default=64),
        kernel=c.whole("mamba_d_conv", default=4),
        gathers=False,
    )
    if not c.flag("mamba_enabled", default=True):
        return [heads(c)] * layer_count(c)
    step, last = c.whole("mamba_step", default=2, low=2), layer_count(c) - 1
    if layer_count(c) <= step // 2:
        return _mixed(c, state, heads(c), lambda i: i == last)
    return _mixed(c, state, heads(c), lambda i: i % step == step // 2)


def rwkv7(c: Fields) -> list[Mixer]:
    """Return the same RWKV-7 mixer in every layer."""
    width = hidden_size(c)
    size = width * c.whole("head_dim")
    return [_scan("rwkv7", narrow=2 * width + size, width=2 * width, state=size)] * layer_count(c)


def recurrent_gemma(c: Fields) -> list[Mixer]:
    """Return gated linear recurrences and local attention with one head of keys."""
    width, count = hidden_size(c), c.whole("num_attention_heads")
    kernel = c.whole("conv1d_width", default=4)
    state = _scan("linear recurrence", narrow=kernel * width, width=2 * width, state=width)
    local = Attention(
        heads=count,
        kv_heads=1,
        head_dim=max(1, width // count),
        value_dim=max(1, width // count),
        window=window_of(c, "attention_window_size"),
    )
    types = c.words("block_types") or c.words("_block_types") or ["recurrent"]
    return _mixed(c, state, local, lambda i: types[i % len(types)] != "recurrent")


def kimi_linear(c: Fields) -> list[Mixer]:
    """Return delta attention and latent attention; layers are counted from 1."""
    inner = c.inner("linear_attn_config")
    size = inner.whole("head_dim")
    state = _kimi_delta(
        inner.whole("num_heads"), size, inner.whole("short_conv_kernel_size", default=4)
    )
    linear = set(inner.numbers("kda_layers") or [])
    return _mixed(c, state, _kimi_latent(c), lambda i: i + 1 not in linear)


def _kimi_latent(c: Fields) -> Mixer:
    rotated = c.whole("qk_rope_head_dim", default=0, low=0)
    return replace(latent(c), rope_dim=rotated)


def _kimi_delta(count: int, size: int, kernel: int) -> Scan:
    mixed = 3 * count * size
    return _wide_scan(
        "delta attention",
        narrow=(kernel - 1) * mixed,
        width=mixed + 2 * count * size,
        state=count * size * size,
    )


def bailing_latent(c: Fields) -> list[Mixer]:
    """Return gated linear attention, and latent attention in the last layer of each group."""
    return _mixed(c, _linear(c), latent(c), _ends_group(c))


def bailing_delta(c: Fields) -> list[Mixer]:
    """Return delta attention, and latent attention in the last layer of each group."""
    kernel = c.whole("short_conv_kernel_size", default=4)
    state = _kimi_delta(c.whole("num_attention_heads"), c.whole("head_dim", default=128), kernel)
    return _mixed(c, state, latent(c), _ends_group(c))


def bailing_linear(c: Fields) -> list[Mixer]:
    """Return gated linear attention, and full attention in the last layer of each group."""
    # Its state begins in the model's type, and not in float32 as that of the others.
    narrow = replace(_linear(c), narrow=_linear(c).state_size, wide=0, state_bytes=0)
    return _mixed(c, narrow, heads(c), _ends_group(c))


def _linear(c: Fields) -> Scan:
    plain = heads(c)
    size = plain.heads * plain.head_dim
    state = size * plain.head_dim
    return _wide_scan("linear attention", narrow=0, width=5 * size, state=state)


def _ends_group(c: Fields) -> Callable[[int], bool]:
    group = c.whole("layer_group_size", default=4, high=MOST_LAYERS)
    whole = layer_count(c) // group * group
    return lambda i: (i + 1) % group == 0 or i >= whole


def baichuan(c: Fields) -> list[Mixer]:
    """Return full and sliding attention, each with a last key and value for its convolution."""
    marked = set(c.numbers("sliding_window_layers") or [])
    found: list[Mixer] = []
    for i in range(layer_count(c)):
        swa = i in marked
        query = c.whole("num_attention_heads")
        kept = c.whole("num_key_value_heads")
        if swa:
            query = c.whole("num_swa_attention_heads", default=query)
            kept = c.whole("num_swa_key_value_heads", default=kept)
        size = max(1, hidden_size(c) // query)
        found.append(State(name="last key and value", narrow=2 * kept * size))
        found.append(
            Attention(
                heads=query,
                kv_heads=kept,
                head_dim=size,
                value_dim=size,
                window=window_of(c) if swa else None,
            )
        )
    return found


def gear(c: Fields) -> list[Mixer]:
    """Return full and sliding attention and convolutions over keys and values, by their types."""
    plain = heads(c)
    kept = plain.kv_heads * plain.head_dim
    keep = c.whole("conv_L_cache", default=3) - 1
    kinds: dict[str, Mixer] = {
        "full_attention": plain,
        "sliding_attention": replace(plain, window=window_of(c, default=512)),
        "conv_mixer": State(name="short convolution", narrow=2 * keep * kept, width=4 * kept),
    }
    types = c.words("layer_types", count=layer_count(c)) or ["full_attention"] * layer_count(c)
    return [kinds.get(name, plain) for name in types[: layer_count(c)]]


def _mixed(
    c: Fields, state: Mixer, attention: Mixer, attends: Callable[[int], bool]
) -> list[Mixer]:
    return [attention if attends(i) else state for i in range(layer_count(c))]


def _by_hidden(c: Fields) -> Attention:
    """Return full attention whose head size is the hidden size by the heads."""
    count = c.whole("num_attention_heads")
    size = max(1, hidden_size(c) // count)
    kept = c.whole("num_key_value_heads", default=count)
    return Attention(heads=count, kv_heads=kept, head_dim=size, value_dim=size)


def _scan(name: str, *, narrow: int, width: int, state: int) -> Scan:
    """Return a state in the model's own type."""
    return Scan(name=name, narrow=narrow, width=width, state_size=state, state_bytes=0, fused=False)


def _wide_scan(name: str, *, narrow: int, width: int, state: int) -> Scan:
    """Return a state in float32, which MLX updates in one kernel on a GPU."""
    return Scan(
        name=name,
        narrow=narrow,
        wide=state,
        width=width,
        state_size=state,
        state_bytes=FLOAT32,
        fused=True,
    )
