"""Where every tensor of a GGUF file goes in an MLX model, and the model's config.json."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.registry.gguf.metadata import architecture, has, integer, number, refusal
from core.registry.gguf.rope import FACTOR_TENSORS, rope_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from core.registry.gguf.container import GgufFile
    from core.registry.gguf.families import Dimensions, Family

_GEMMA3_PATTERN = 6  # of six layers, the last one sees everything; older files do not say so
_GEMMA3_LOCAL_BASE = 10000.0
# Whose largest models scale queries by another number than the width of a head.
_ODD_QUERIES = {"gemma2": 46, "gemma3": 62}
# Keys that change what a model computes, in ways that none of the families has.
_FEATURES = ("attention.scale", "attention.clamp_kqv", "attention.max_alibi_bias", "logit_scale",
             "residual_scale", "embedding_scale", "use_parallel_residual",
             "attention.temperature_scale")  # fmt: skip
_GELU = "gelu_pytorch_tanh"


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a tensor of the file goes."""

    path: str
    """MLX's module: `model.layers.0.self_attn.q_proj`."""
    shape: tuple[int, ...]
    """The shape that it must have."""
    part: str = "weight"
    """`weight` or `bias`."""
    heads: int | None = None
    """Its rows lie in GGUF's rotary order, in so many heads; None: in the usual order."""
    shift: int = 0
    """What the file has added to its values."""

    @property
    def name(self) -> str:
        """The tensor's full name."""
        return f"{self.path}.{self.part}"


def targets(gguf: GgufFile, family: Family, size: Dimensions) -> dict[str, Target]:
    """Return where every tensor of the file goes, by its name in the file.

    Raises:
        BadModelFiles: a tensor is missing, left over or misshapen.
    """
    untied = "output.weight" in gguf.tensors and family.may_untie
    plan = dict(_plan(family, size, untied=untied))
    for name, target in plan.items():
        entry = gguf.tensors.get(name)
        if entry is None:
            raise refusal(gguf, f"has no tensor {name!r}")
        if entry.shape != target.shape:
            raise refusal(gguf, f"has tensor {name!r} as {entry.shape}, not {target.shape}")
    if extra := sorted(gguf.tensors.keys() - plan.keys() - FACTOR_TENSORS):
        kind = architecture(gguf)
        raise refusal(gguf, f"has tensor {extra[0]!r}, which is not part of a plain {kind} model")
    return plan


def _plan(family: Family, size: Dimensions, *, untied: bool) -> Iterator[tuple[str, Target]]:
    shapes = _shapes(family, size)
    rotary = {"attn_q": size.heads, "attn_k": size.kv_heads} if family.interleaved else {}
    words = (size.vocabulary, size.hidden)
    yield "token_embd.weight", Target(path="model.embed_tokens", shape=words)
    for layer in range(size.layers):
        for name, path in family.block.items():
            yield (
                f"blk.{layer}.{name}.weight",
                Target(
                    path=f"model.layers.{layer}.{path}",
                    shape=shapes[name],
                    heads=rotary.get(name),
                    shift=family.norm_shift if len(shapes[name]) == 1 else 0,
                ),
            )
        for name in family.biases:
            path = f"model.layers.{layer}.{family.block[name]}"
            yield f"blk.{layer}.{name}.bias", Target(path=path, shape=shapes[name][:1], part="bias")
    norm = Target(path="model.norm", shape=(size.hidden,), shift=family.norm_shift)
    yield "output_norm.weight", norm
    if untied:
        yield "output.weight", Target(path="lm_head", shape=words)


def _shapes(family: Family, size: Dimensions) -> dict[str, tuple[int, ...]]:
    queries, keys = size.heads * size.head, size.kv_heads * size.head
    fused = "ffn_gate" not in family.block
    return {
        "attn_norm": (size.hidden,),
        "attn_q": (queries, size.hidden),
        "attn_k": (keys, size.hidden),
        "attn_v": (keys, size.hidden),
        "attn_qkv": (queries + 2 * keys, size.hidden),
        "attn_q_norm": (size.head,),
        "attn_k_norm": (size.head,),
        "attn_output": (size.hidden, queries),
        "post_attention_norm": (size.hidden,),
        "ffn_norm": (size.hidden,),
        "ffn_gate": (size.inner, size.hidden),
        "ffn_up": ((2 if fused else 1) * size.inner, size.hidden),
        "ffn_down": (size.hidden, size.inner),
        "post_ffw_norm": (size.hidden,),
    }


def build_config(gguf: GgufFile, family: Family, size: Dimensions) -> dict[str, Any]:
    """Return the contents of config.json, without its types of numbers.

    Raises:
        BadModelFiles: a feature that mlx-lm does not have for the family, or numbers out of range.
    """
    _refuse_features(gguf)
    own = {"llama": _llama, "gemma2": _gemma2, "gemma3": _gemma3, "phi3": _phi3}
    add = own.get(architecture(gguf))
    return {
        "architectures": [family.class_name],
        "model_type": family.model_type,
        "hidden_size": size.hidden,
        "intermediate_size": size.inner,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "head_dim": size.head,
        "vocab_size": size.vocabulary,
        "max_position_embeddings": size.context,
        "rms_norm_eps": number(gguf, "attention.layer_norm_rms_epsilon"),
        **rope_config(gguf, family, size),
        "hidden_act": "silu",
        "attention_bias": bool(family.biases),
        **(add(gguf, size) if add else {}),
        "tie_word_embeddings": "output.weight" not in gguf.tensors,
    }


def _refuse_features(gguf: GgufFile) -> None:
    if found := next((key for key in _FEATURES if has(gguf, key)), None):
        raise refusal(gguf, f"has '{architecture(gguf)}.{found}', which mlxbun cannot import")


def _llama(gguf: GgufFile, _size: Dimensions) -> dict[str, Any]:
    config: dict[str, Any] = {"mlp_bias": False}
    if has(gguf, "attention.sliding_window"):
        config["sliding_window"] = integer(gguf, "attention.sliding_window", low=0) or None
    return config


def _gemma2(gguf: GgufFile, size: Dimensions) -> dict[str, Any]:
    return {
        "hidden_act": _GELU,
        "hidden_activation": _GELU,
        "query_pre_attn_scalar": _query_scalar(gguf, size),
        "attn_logit_softcapping": number(gguf, "attn_logit_softcapping", default=50.0),
        "final_logit_softcapping": number(gguf, "final_logit_softcapping", default=30.0),
        "sliding_window": integer(gguf, "attention.sliding_window", default=4096),
    }


def _gemma3(gguf: GgufFile, size: Dimensions) -> dict[str, Any]:
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if has(gguf, key):
            raise refusal(gguf, f"caps its logits ({key}), which mlx-lm does not do for gemma3")
    windowed = has(gguf, "attention.sliding_window")
    return {
        "hidden_act": _GELU,
        "hidden_activation": _GELU,
        "query_pre_attn_scalar": _query_scalar(gguf, size),
        "sliding_window": integer(gguf, "attention.sliding_window", default=size.context),
        "sliding_window_pattern": _pattern(gguf, size) if windowed else 1,
        "rope_local_base_freq": number(gguf, "rope.freq_base_swa", default=_GEMMA3_LOCAL_BASE),
    }


def _pattern(gguf: GgufFile, size: Dimensions) -> int:
    """Return how many layers it takes to one that sees everything."""
    key = "attention.sliding_window_pattern"
    told = gguf.metadata.get(f"{architecture(gguf)}.{key}")
    if not isinstance(told, tuple):
        return integer(gguf, key, default=_GEMMA3_PATTERN)
    # One truth value a layer: whether it has a window.
    period = told.index(False) + 1 if False in told else 0
    if period and told == tuple((layer + 1) % period != 0 for layer in range(size.layers)):
        return period
    raise refusal(gguf, f"has an {key!r} that does not repeat")


def _query_scalar(gguf: GgufFile, size: Dimensions) -> int:
    odd = size.layers == _ODD_QUERIES[architecture(gguf)]
    return size.hidden // size.heads if odd else size.head


def _share(part: int, whole: int) -> float:
    """Return the number that, times the whole, is the part when it is cut to a whole number."""
    share = part / whole
    return share if int(whole * share) == part else math.nextafter(share, 1.0)


def _phi3(gguf: GgufFile, size: Dimensions) -> dict[str, Any]:
    config: dict[str, Any] = {
        "partial_rotary_factor": _share(size.rotary, size.head),
        "original_max_position_embeddings": integer(
            gguf, "rope.scaling.original_context_length", default=size.context
        ),
    }
    if has(gguf, "attention.sliding_window"):
        config["sliding_window"] = integer(gguf, "attention.sliding_window", low=0) or None
    return config
