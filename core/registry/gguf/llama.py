"""The llama architecture: GGUF metadata to config.json, GGUF tensor names to MLX's.

Every tensor that a plain llama model needs must be there in its right shape, and no other: a
feature that is not understood is refused, never dropped. Knows nothing of tokenizers or files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import BadModelFiles
from core.registry.gguf.blocks import BITS, GROUP, Array, unpack
from core.registry.gguf.container import HINT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.registry.gguf.container import GgufFile, TensorEntry

ROPE_FREQS = "rope_freqs.weight"

_BLOCK_NAMES = {
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
# Llama 3's rope scaling, of which a GGUF keeps only the resulting factors.
_LLAMA3 = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """The sizes of a llama model."""

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
    vocabulary: int
    """Rows of the embedding."""
    context: int
    """Longest sequence, in tokens."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a tensor of the file goes."""

    path: str
    """MLX's module: `model.layers.0.self_attn.q_proj`."""
    shape: tuple[int, ...]
    """The shape that it must have."""
    heads: int | None = None
    """Its rows lie in GGUF's rotary order, in so many heads; None: in the usual order."""


def read_dimensions(gguf: GgufFile) -> Dimensions:
    """Return the sizes that the metadata tells, checked for sense.

    Raises:
        BadModelFiles: another architecture, a missing or senseless number, or a feature that a
            plain llama model does not have.
    """
    architecture = gguf.metadata.get("general.architecture")
    if architecture != "llama":
        raise BadModelFiles(
            f"{gguf.path.name} has the architecture {architecture!r}, and mlxbun imports only"
            " llama from GGUF.",
            hint="Use a repository in MLX's own format for this model.",
        )
    if _integer(gguf, "expert_count", default=0, low=0):
        raise _refuse(gguf, "is a mixture of experts")
    embedding = gguf.tensors.get("token_embd.weight")
    if embedding is None:
        raise _refuse(gguf, "has no tensor 'token_embd.weight'")
    hidden, heads = _integer(gguf, "embedding_length"), _integer(gguf, "attention.head_count")
    head = _integer(gguf, "attention.key_length", default=hidden // heads)
    dimensions = Dimensions(
        layers=_integer(gguf, "block_count"),
        hidden=hidden,
        inner=_integer(gguf, "feed_forward_length"),
        heads=heads,
        kv_heads=_integer(gguf, "attention.head_count_kv", default=heads),
        head=head,
        vocabulary=embedding.shape[0],
        context=_integer(gguf, "context_length"),
    )
    _check(gguf, dimensions)
    return dimensions


def targets(gguf: GgufFile, size: Dimensions) -> dict[str, Target]:
    """Return where every tensor of the file goes, by its name in the file.

    Raises:
        BadModelFiles: a tensor is missing, left over or misshapen.
    """
    plan = dict(_plan(size, tied="output.weight" not in gguf.tensors))
    for name, target in plan.items():
        entry = gguf.tensors.get(name)
        if entry is None:
            raise _refuse(gguf, f"has no tensor {name!r}")
        if entry.shape != target.shape:
            raise _refuse(gguf, f"has tensor {name!r} as {entry.shape}, not {target.shape}")
    if extra := sorted(gguf.tensors.keys() - plan.keys() - {ROPE_FREQS}):
        raise _refuse(gguf, f"has tensor {extra[0]!r}, which is not part of a plain llama model")
    return plan


def convert(gguf: GgufFile, entry: TensorEntry, target: Target) -> dict[str, Array]:
    """Return one tensor as MLX's arrays, by their full names.

    Raises:
        BadModelFiles: the tensor's numbers are out of range.
    """
    parts = unpack(entry, gguf.read(entry))
    if target.heads is not None:
        parts = {name: _usual_order(array, target.heads) for name, array in parts.items()}
    return {f"{target.path}.{name}": array for name, array in parts.items()}


def build_config(gguf: GgufFile, size: Dimensions, plan: Mapping[str, Target]) -> dict[str, Any]:
    """Return the contents of config.json.

    Raises:
        BadModelFiles: rotary scaling of an unknown kind, or numbers out of range.
    """
    config: dict[str, Any] = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": size.hidden,
        "intermediate_size": size.inner,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "head_dim": size.head,
        "vocab_size": size.vocabulary,
        "max_position_embeddings": size.context,
        "rms_norm_eps": _number(gguf, "attention.layer_norm_rms_epsilon"),
        "rope_theta": _number(gguf, "rope.freq_base", default=10000.0),
        "rope_scaling": _rope_scaling(gguf, size),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "output.weight" not in gguf.tensors,
        "torch_dtype": "float16",
    }
    bits = {plan[name].path: BITS[e.kind] for name, e in gguf.tensors.items() if e.kind in BITS}
    if bits:
        config["quantization"] = _quantization(bits)
    return config


def _plan(size: Dimensions, *, tied: bool) -> Iterator[tuple[str, Target]]:
    queries, keys = size.heads * size.head, size.kv_heads * size.head
    shapes = {
        "attn_norm": (size.hidden,),
        "attn_q": (queries, size.hidden),
        "attn_k": (keys, size.hidden),
        "attn_v": (keys, size.hidden),
        "attn_output": (size.hidden, queries),
        "ffn_norm": (size.hidden,),
        "ffn_gate": (size.inner, size.hidden),
        "ffn_up": (size.inner, size.hidden),
        "ffn_down": (size.hidden, size.inner),
    }
    rotary = {"attn_q": size.heads, "attn_k": size.kv_heads}
    words = (size.vocabulary, size.hidden)
    yield "token_embd.weight", Target(path="model.embed_tokens", shape=words)
    for layer in range(size.layers):
        for name, path in _BLOCK_NAMES.items():
            full = f"model.layers.{layer}.{path}"
            target = Target(path=full, shape=shapes[name], heads=rotary.get(name))
            yield f"blk.{layer}.{name}.weight", target
    yield "output_norm.weight", Target(path="model.norm", shape=(size.hidden,))
    if not tied:
        yield "output.weight", Target(path="lm_head", shape=words)


def _usual_order(array: Array, heads: int) -> Array:
    # GGUF interleaves the two halves of each head (rotation of neighbours); MLX and Hugging Face
    # keep them apart. [R, ...] → [heads, half, 2, ...] → [heads, 2, half, ...].
    rows, rest = array.shape[0], array.shape[1:]
    pairs = array.reshape(heads, rows // heads // 2, 2, *rest)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, *rest)


def _quantization(bits: Mapping[str, int]) -> dict[str, Any]:
    usual, _ = Counter(bits.values()).most_common(1)[0]
    others = {
        path: {"group_size": GROUP, "bits": width} for path, width in bits.items() if width != usual
    }
    return {"group_size": GROUP, "bits": usual, **others}


def _rope_scaling(gguf: GgufFile, size: Dimensions) -> dict[str, Any] | None:
    kind = gguf.metadata.get("llama.rope.scaling.type", "none")
    if ROPE_FREQS in gguf.tensors:
        return _llama3_scaling(gguf, size)
    if kind == "none":
        return None
    if kind == "linear":
        factor = _number(gguf, "rope.scaling.factor")
        return {"type": "linear", "factor": factor}
    raise _refuse(gguf, f"scales its rotary positions by {kind!r}, which mlxbun cannot import yet")


def _llama3_scaling(gguf: GgufFile, size: Dimensions) -> dict[str, Any]:
    """Find the factor that gives the file's frequencies by Llama 3's rule, or refuse."""
    entry = gguf.tensors[ROPE_FREQS]
    found = unpack(entry, gguf.read(entry))["weight"].astype(np.float64)
    factor = float(found.max())
    if found.shape == (size.head // 2,) and math.isfinite(factor) and factor >= 1:
        base = _number(gguf, "rope.freq_base", default=10000.0)
        wanted = _llama3_factors(size.head, base, factor)
        if np.allclose(found, wanted, rtol=1e-3):
            return {"rope_type": "llama3", "factor": factor, **_LLAMA3}
    raise _refuse(gguf, f"has {ROPE_FREQS!r} that do not follow Llama 3's rule")


def _llama3_factors(head: int, base: float, factor: float) -> Array:
    waves = 2 * np.pi * base ** (np.arange(0, head, 2) / head)
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    context = _LLAMA3["original_max_position_embeddings"]
    smooth = np.clip((context / waves - low) / (high - low), 0, 1)
    factors: Array = 1 / ((1 - smooth) / factor + smooth)
    return factors


def _check(gguf: GgufFile, size: Dimensions) -> None:
    if size.heads % size.kv_heads or size.head % 2:
        raise _refuse(gguf, "has numbers of heads that do not go together")
    value = _integer(gguf, "attention.value_length", default=size.head)
    rotary = _integer(gguf, "rope.dimension_count", default=size.head)
    if not value == rotary == size.head:
        raise _refuse(gguf, "rotates a part of each head, or has values of another width")
    # Every block has tensors, so the table bounds the number of layers.
    if size.layers > len(gguf.tensors):
        raise _refuse(gguf, f"claims {size.layers} layers and has {len(gguf.tensors)} tensors")


def _integer(gguf: GgufFile, key: str, *, default: int | None = None, low: int = 1) -> int:
    value = gguf.metadata.get(f"llama.{key}", default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**31:
        raise _refuse(gguf, f"has {value!r:.40} for 'llama.{key}', which must be a whole number")
    return value


def _number(gguf: GgufFile, key: str, *, default: float | None = None) -> float:
    value = gguf.metadata.get(f"llama.{key}", default)
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise _refuse(gguf, f"has {value!r:.40} for 'llama.{key}', which must be a positive number")
    # float32 in the file: the shortest decimal that means it reads as its author wrote it.
    return float(str(np.float32(value)))


def _refuse(gguf: GgufFile, what: str) -> BadModelFiles:
    return BadModelFiles(f"{gguf.path.name} {what}.", hint=HINT)
