"""Models of real sizes whose weights are holes: headers are all that fit reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.caches import Tensors, write_sparse

LLAMA_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128_256,
    "max_position_embeddings": 131_072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500_000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def llama_8b(folder: Path, *, bits: int | None = None) -> Path:
    """Write Llama 3.1 8B into a folder.

    Args:
        folder: made if it is not there.
        bits: packed to this width in groups of 64; None: bfloat16.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(LLAMA_8B)
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    for name, (rows, columns) in _matrices():
        tensors |= _matrix(name, rows, columns, bits)
    for layer in range(32):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{norm}.weight"] = ("BF16", (4096,))
    tensors["model.norm.weight"] = ("BF16", (4096,))
    if bits:
        config["quantization"] = {"bits": bits, "group_size": 64}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_sparse(folder / "model.safetensors", tensors)
    return folder


def _matrices() -> list[tuple[str, tuple[int, int]]]:
    layer = {
        "self_attn.q_proj": (4096, 4096),
        "self_attn.k_proj": (1024, 4096),
        "self_attn.v_proj": (1024, 4096),
        "self_attn.o_proj": (4096, 4096),
        "mlp.gate_proj": (14336, 4096),
        "mlp.up_proj": (14336, 4096),
        "mlp.down_proj": (4096, 14336),
    }
    ends = [("model.embed_tokens", (128_256, 4096)), ("lm_head", (128_256, 4096))]
    return [*ends, *((f"model.layers.{n}.{k}", v) for n in range(32) for k, v in layer.items())]


def _matrix(name: str, rows: int, columns: int, bits: int | None) -> Tensors:
    if bits is None:
        return {f"{name}.weight": ("BF16", (rows, columns))}
    groups = ("BF16", (rows, columns // 64))
    packed = ("U32", (rows, columns * bits // 32))
    return {f"{name}.weight": packed, f"{name}.scales": groups, f"{name}.biases": groups}
