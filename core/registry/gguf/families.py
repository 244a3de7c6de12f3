"""The architectures that mlxbun imports from GGUF, and how each differs from llama.

A table: names of tensors, which of them a model must have, and what the file stores in another way
than MLX. Every tensor that a model of the family needs must be there in its right shape, and no
other: a feature that is not understood is refused, never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import BadModelFiles
from core.registry.gguf.metadata import architecture, integer, refusal

if TYPE_CHECKING:
    from core.registry.gguf.container import GgufFile

_LLAMA_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_GEMMA_BLOCK = {
    **_LLAMA_BLOCK,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
# MLX keeps these two in one piece, as the file does.
_PHI3_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.gate_up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True, kw_only=True)
class Family:
    """One architecture."""

    model_type: str
    """mlx-lm's name of it."""
    class_name: str
    """Transformers' class, for config.json's `architectures`."""
    block: Mapping[str, str]
    """Names of a block's tensors in the file, to MLX's paths within a layer."""
    biases: tuple[str, ...] = ()
    """Tensors of a block that have a bias."""
    interleaved: bool = False
    """Whether rows of queries and keys lie in the order of GGUF's rotation of neighbours."""
    norm_shift: int = 0
    """What the file has added to the weights of norms."""
    own_head: bool = True
    """Whether a head's width may differ from the hidden size divided by the heads."""
    partial_rotary: bool = False
    """Whether a part of each head may be rotated alone."""
    may_untie: bool = True
    """Whether the output may have a matrix of its own."""
    wide: bool = False
    """Whether its activations may leave float16's range."""
    scalings: tuple[str, ...] = ("linear", "yarn")
    """Rules of rotary scaling that mlx-lm has for it."""


FAMILIES = {
    "llama": Family(
        model_type="llama",
        class_name="LlamaForCausalLM",
        block=_LLAMA_BLOCK,
        interleaved=True,
        scalings=("linear", "yarn", "llama3"),
    ),
    "qwen2": Family(
        model_type="qwen2",
        class_name="Qwen2ForCausalLM",
        block=_LLAMA_BLOCK,
        biases=("attn_q", "attn_k", "attn_v"),
        own_head=False,
    ),
    "qwen3": Family(
        model_type="qwen3",
        class_name="Qwen3ForCausalLM",
        block={**_LLAMA_BLOCK, **_HEAD_NORMS},
    ),
    "gemma2": Family(
        model_type="gemma2",
        class_name="Gemma2ForCausalLM",
        block=_GEMMA_BLOCK,
        norm_shift=1,
        wide=True,
        may_untie=False,
        scalings=(),
    ),
    "gemma3": Family(
        model_type="gemma3_text",
        class_name="Gemma3ForCausalLM",
        block={**_GEMMA_BLOCK, **_HEAD_NORMS},
        norm_shift=1,
        wide=True,
        scalings=("linear",),
    ),
    "phi3": Family(
        model_type="phi3",
        class_name="Phi3ForCausalLM",
        block=_PHI3_BLOCK,
        own_head=False,
        partial_rotary=True,
        scalings=("longrope",),
    ),
}
"""By the architecture's name in the file."""


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """The sizes of a model."""

    layers: int
    """Transformer blocks."""
    hidden: int
    """Width of the residual stream."""
    inner: int
    """Width inside the feed-forward."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads; divides `heads`."""
    head: int
    """Width of one head; even."""
    rotary: int
    """Numbers of each head that are rotated; even."""
    vocabulary: int
    """Rows of the embedding."""
    context: int
    """Longest sequence, in tokens."""


def find_family(gguf: GgufFile) -> Family:
    """Return the family of a file.

    Raises:
        BadModelFiles: it is of another architecture, or a mixture of experts.
    """
    name = architecture(gguf)
    if name not in FAMILIES:
        what = f"the architecture {name!r:.80}" if name else "no architecture in its metadata"
        raise BadModelFiles(
            f"{gguf.path.name} has {what}; mlxbun imports {', '.join(FAMILIES)} from GGUF.",
            hint="Use a repository in MLX's own format for this model.",
        )
    if integer(gguf, "expert_count", default=0, low=0):
        raise refusal(gguf, "is a mixture of experts, which mlxbun cannot import from GGUF")
    return FAMILIES[name]


def read_dimensions(gguf: GgufFile, family: Family) -> Dimensions:
    """Return the sizes in the metadata, checked for sense.

    Raises:
        BadModelFiles: a missing or senseless number, or a feature that the family does not have.
    """
    embedding = gguf.tensors.get("token_embd.weight")
    if embedding is None:
        raise refusal(gguf, "has no tensor 'token_embd.weight'")
    hidden, heads = integer(gguf, "embedding_length"), integer(gguf, "attention.head_count")
    head = integer(gguf, "attention.key_length", default=hidden // heads)
    size = Dimensions(
        layers=integer(gguf, "block_count"),
        hidden=hidden,
        inner=integer(gguf, "feed_forward_length"),
        heads=heads,
        kv_heads=integer(gguf, "attention.head_count_kv", default=heads),
        head=head,
        rotary=integer(gguf, "rope.dimension_count", default=head),
        vocabulary=embedding.shape[0],
        context=integer(gguf, "context_length"),
    )
    _check(gguf, family, size)
    return size


def _check(gguf: GgufFile, family: Family, size: Dimensions) -> None:
    if size.heads % size.kv_heads or size.head % 2 or size.rotary % 2:
        raise refusal(gguf, "has numbers of heads that do not go together")
    if not family.own_head and size.head * size.heads != size.hidden:
        raise refusal(
            gguf, f"has heads of {size.head}, and {family.model_type} derives their width"
        )
    if integer(gguf, "attention.value_length", default=size.head) != size.head:
        raise refusal(gguf, "has values of another width than keys")
    if size.rotary != size.head and not (family.partial_rotary and size.rotary < size.head):
        raise refusal(gguf, "rotates a part of each head")
    # Every block has tensors, so the table bounds the number of layers.
    if size.layers > len(gguf.tensors):
        raise refusal(gguf, f"claims {size.layers} layers and has {len(gguf.tensors)} tensors")
