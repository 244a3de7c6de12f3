"""What a model is made of, as far as memory and time depend on it. Plain records, no table.

A layer has mixers (attention of some kind, or a recurrent state) and a feed-forward part. Each
mixer knows what it keeps of a row: `kept` counts the caches that mlx-lm gives it.

Letters: H heads, D head size, T tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.fit.kv import LayerKv

FLOAT32 = 4
KV_GROUP = 64  # mlx-lm's group size for a quantized KV cache

LayerKind = Literal["full", "sliding", "latent", "state", "shared"]


@dataclass(frozen=True, kw_only=True)
class KvFormat:
    """How numbers are kept between tokens."""

    float_bytes: int
    """Bytes of a number in the type that the model computes in: 2 or 4."""
    bits: int | None = None
    """Bits of a quantized KV cache, 8 or 4; None: it is not quantized."""

    def vector_bytes(self, size: int) -> int:
        """Return the bytes of one vector of keys or values.

        Source: mlx_lm/models/cache.py, QuantizedKVCache: `size * bits / 8` in words of 32 bits,
        and a scale and a bias for each group of 64.
        """
        if self.bits is None or size % KV_GROUP:
            return size * self.float_bytes
        return size * self.bits // 8 + 2 * (size // KV_GROUP) * self.float_bytes


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Keys and values of each head: of all tokens, or of the last `window` ones."""

    heads: int
    """Query heads."""
    kv_heads: int
    """Heads of keys and values."""
    head_dim: int
    """Size of a query and of a key."""
    value_dim: int
    """Size of a value."""
    window: int | None = None
    """Most tokens it keeps; None: all."""
    shared: bool = False
    """Whether it reads what an earlier layer keeps, and keeps nothing itself."""
    index_dim: int = 0
    """Size of an index key of sparse attention; 0: there is none."""

    @property
    def kind(self) -> LayerKind:
        """The kind of layer that it makes."""
        if self.shared:
            return "shared"
        return "full" if self.window is None else "sliding"

    def kept(self, form: KvFormat) -> LayerKv:
        """Return what it keeps of a row; mlx-lm quantizes no rotating cache."""
        if self.shared:
            return LayerKv()
        plain = self.window is not None or self.index_dim
        used = KvFormat(float_bytes=form.float_bytes) if plain else form
        each = used.vector_bytes(self.head_dim) + used.vector_bytes(self.value_dim)
        index = self.index_dim * form.float_bytes
        return LayerKv(bytes_per_token=self.kv_heads * each + index, window=self.window)


@dataclass(frozen=True, kw_only=True)
class Latent:
    """Multi-head latent attention (MLA), in the two ways that mlx-lm computes it.

    *Absorbed* keeps the compressed vector and one rotated key a token; *expanded* (DeepSeek-V2,
    MiniCPM3, Youtu) unfolds them before the cache and keeps keys and values of every head.
    """

    heads: int
    """Query heads."""
    nope_dim: int
    """Size of the part of a query that is not rotated."""
    rope_dim: int
    """Size of the part that is."""
    value_dim: int
    """Size of a value."""
    rank: int
    """Size of the compressed vector."""
    query_rank: int | None = None
    """Size of the compressed query; None: queries are not compressed."""
    expanded: bool = False
    """Whether keys and values are kept unfolded."""
    index_dim: int = 0
    """Size of an index key of sparse attention; 0: there is none."""

    @property
    def kind(self) -> LayerKind:
        """The kind of layer that it makes."""
        return "full" if self.expanded else "latent"

    def kept(self, form: KvFormat) -> LayerKv:
        """Return what it keeps of a row; mlx-lm's latent attention takes no quantized cache."""
        if self.expanded:
            keys = form.vector_bytes(self.nope_dim + self.rope_dim)
            return LayerKv(bytes_per_token=self.heads * (keys + form.vector_bytes(self.value_dim)))
        # mlx-lm keeps index keys in a KVCache, with zeros of the same size for values.
        numbers = self.rank + self.rope_dim + 2 * self.index_dim
        return LayerKv(bytes_per_token=numbers * form.float_bytes)


@dataclass(frozen=True, kw_only=True)
class State:
    """A recurrent layer: what it keeps does not grow with the row."""

    name: str
    """For people: `mamba2`, `short convolution`."""
    narrow: int
    """Numbers that it keeps in the model's type."""
    wide: int = 0
    """Numbers that it keeps in float32."""
    width: int = 0
    """Numbers a token that flow through it."""

    kind: LayerKind = "state"
    """The kind of layer that it makes."""

    def kept(self, form: KvFormat) -> LayerKv:
        """Return what it keeps of a row."""
        return LayerKv(constant_bytes=self.narrow * form.float_bytes + self.wide * FLOAT32)


@dataclass(frozen=True, kw_only=True)
class Ssd(State):
    """A Mamba-2 mixer (state space duality), computed in blocks of 256 tokens."""

    heads: int
    head_dim: int
    groups: int
    state_dim: int


@dataclass(frozen=True, kw_only=True)
class Scan(State):
    """A state that is updated token after token: Mamba, gated delta nets, RWKV."""

    state_size: int
    """Numbers of the state of one row."""
    state_bytes: int
    """Bytes of one of them."""
    fused: bool
    """Whether MLX has one kernel for it on a GPU."""


Mixer = Attention | Latent | State


@dataclass(frozen=True, kw_only=True)
class Feed:
    """The feed-forward part of a layer."""

    width: int
    """Numbers a token between its two projections; of all chosen experts together."""
    experts: int = 0
    """How many experts there are; 0: it is dense."""
    chosen: int = 0
    """How many of them compute a token."""
    shared_width: int = 0
    """Width of the experts that compute every token."""


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What the names of the weights tell of how layers are built."""

    query_norm: bool = False
    """Queries and keys are normalized."""
    post_norms: bool = False
    """What a mixer or a feed-forward part gives is normalized before it is added."""
    joined_heads: bool = False
    """Queries, keys and values come out of one projection."""
    joined_gate: bool = False
    """So do the two halves of a gated feed-forward part."""
    sinks: bool = False
    """Attention has sinks: one more score for each query."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer."""

    mixers: tuple[Mixer, ...]
    """What mixes tokens; several run side by side or after each other."""
    feed: Feed | None
    """What follows; None: nothing."""


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A model as its config.json describes it."""

    model_type: str
    """The architecture's name: `llama`."""
    hidden: int
    """Numbers a token between the layers."""
    vocabulary: int
    """Tokens that there are."""
    layers: tuple[Layer, ...]
    """In the order they compute."""
    context_window: int | None
    """Tokens that the model was made for; None: it does not tell."""
    known: bool
    """Whether the architecture is in our table; else every layer counts as full attention."""

    def mixers(self) -> list[Mixer]:
        """Return every mixer of every layer."""
        return [mixer for layer in self.layers for mixer in layer.mixers]

    def kinds(self) -> dict[LayerKind, int]:
        """Return how many mixers there are of each kind, in a fixed order."""
        found = [mixer.kind for mixer in self.mixers()]
        order: tuple[LayerKind, ...] = ("full", "sliding", "latent", "state", "shared")
        return {kind: found.count(kind) for kind in order if kind in found}
