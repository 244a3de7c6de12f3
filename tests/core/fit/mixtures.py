"""Mixtures of experts of real sizes, and what people measured of them with MLX.

The models are mlx-lm's own, built and quantized without computing a number: shapes are all that fit
needs. `docs/fit.md` has the same rows as `PUBLISHED`.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

from core.fit.families import read_shape
from core.fit.memory import Computing, Estimator
from core.fit.weights import Tensor, weigh

_DTYPES = {mx.bfloat16: "BF16", mx.uint32: "U32", mx.uint8: "U8", mx.float32: "F32"}
_COMMON = {
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "max_position_embeddings": 40_960,
    "tie_word_embeddings": False,
}
_GPT_OSS = {
    "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "num_experts_per_tok": 4,
    "vocab_size": 201_088, "sliding_window": 128,
}  # fmt: skip
_QWEN_HYBRID = {
    "model_type": "qwen3_5_moe_text", "hidden_size": 2048, "num_hidden_layers": 40,
    "intermediate_size": 512, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
    "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "linear_num_value_heads": 32,
    "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "vocab_size": 248_320,
}  # fmt: skip
# From the config.json of each model, as far as mlx-lm asks for it.
CONFIGS: dict[str, dict[str, Any]] = {
    "Mixtral 8x7B": {
        "model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32,
        "intermediate_size": 14_336, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32_000,
    },
    "Qwen1.5-MoE A2.7B": {
        "model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
        "intermediate_size": 5632, "num_attention_heads": 16, "num_key_value_heads": 16,
        "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts": 60,
        "num_experts_per_tok": 4, "vocab_size": 151_936,
    },
    "Qwen3 30B-A3B": {
        "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
        "intermediate_size": 6144, "num_attention_heads": 32, "num_key_value_heads": 4,
        "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
        "moe_intermediate_size": 768, "decoder_sparse_step": 1, "mlp_only_layers": [],
        "norm_topk_prob": True, "vocab_size": 151_936,
    },
    "Qwen3.5 35B-A3B": {"model_type": "qwen3_5_moe", "text_config": _COMMON | _QWEN_HYBRID},
    "Phi-3.5-MoE": {
        "model_type": "phimoe", "hidden_size": 4096, "num_hidden_layers": 32,
        "intermediate_size": 6400, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_local_experts": 16, "num_experts_per_tok": 2, "vocab_size": 32_064,
    },
    "DeepSeek-V2-Lite": {
        "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27,
        "intermediate_size": 10_944, "num_attention_heads": 16, "num_key_value_heads": 16,
        "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
        "num_experts_per_tok": 6, "first_k_dense_replace": 1, "kv_lora_rank": 512,
        "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "vocab_size": 102_400, "n_group": 1, "topk_group": 1, "topk_method": "greedy",
        "routed_scaling_factor": 1.0, "moe_layer_freq": 1,
        "rope_scaling": {
            "type": "yarn", "factor": 40, "original_max_position_embeddings": 4096,
            "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707,
        },
    },
    "MiniMax-M2.1": {
        "model_type": "minimax", "hidden_size": 3072, "num_hidden_layers": 62,
        "intermediate_size": 1536, "num_attention_heads": 48, "num_key_value_heads": 8,
        "head_dim": 128, "num_local_experts": 256, "num_experts_per_tok": 8,
        "vocab_size": 200_064, "rotary_dim": 64, "shared_intermediate_size": 0,
    },
    "gpt-oss 20B": _GPT_OSS | {"num_hidden_layers": 24, "num_local_experts": 32},
    "gpt-oss 120B": _GPT_OSS | {"num_hidden_layers": 36, "num_local_experts": 128},
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Run:
    """What was measured once."""

    model: str
    """A key of `CONFIGS`."""
    bits: int
    """Bits of a weight."""
    group: int = 64
    """Weights that share a scale."""
    experts: str = "affine"
    """How experts are quantized: `affine` or `mxfp4`."""
    mac: str
    """The Mac, as `--sku` takes it."""
    context: int
    """Tokens of prompt and answer, halfway through the answer."""
    decode: float
    """Tokens a second; the middle of a range."""
    source: str
    """Where it was published."""


_M1_ULTRA: dict[str, Any] = {
    "mac": "M1 Ultra 128 GB (64-core GPU)",
    "context": 64,
    "source": "lablup/mlxcel, docs/benchmark_results/model_tests_m1ultra.md",
}
_HALLEY: dict[str, Any] = {
    "model": "gpt-oss 20B",
    "bits": 4,
    "group": 32,
    "context": 1024,
    "source": "huggingface.co, halley-ai/gpt-oss-20b-MLX-4bit-gs32",
}
_M3_ULTRA: dict[str, Any] = {
    "model": "MiniMax-M2.1",
    "mac": "M3 Ultra 512 GB (80-core GPU)",
    "context": 512,
    "source": "newbdez33/llm-mac-512",
}
PUBLISHED = [
    Run(model="Mixtral 8x7B", bits=4, decode=54.9, **_M1_ULTRA),
    Run(model="Qwen1.5-MoE A2.7B", bits=4, decode=145, **_M1_ULTRA),
    Run(model="Qwen3 30B-A3B", bits=4, decode=70.2, **_M1_ULTRA),
    Run(model="Qwen3.5 35B-A3B", bits=4, decode=76.4, **_M1_ULTRA),
    Run(model="Phi-3.5-MoE", bits=4, decode=69.3, **_M1_ULTRA),
    Run(model="DeepSeek-V2-Lite", bits=4, decode=117, **_M1_ULTRA),
    Run(model="gpt-oss 20B", bits=4, experts="mxfp4", decode=89.5, **_M1_ULTRA),
    Run(model="gpt-oss 120B", bits=4, decode=57.6, **_M1_ULTRA),
    Run(mac="M1 Max 32 GB (32-core GPU)", decode=67, **_HALLEY),
    Run(
        model="gpt-oss 20B",
        bits=4,
        mac="M2 Max 32 GB (30-core GPU)",
        context=190,
        decode=91.5,
        source="huggingface.co, Jackrong/gpt-oss-20b-MLX-4bit",
    ),
    Run(
        model="Qwen3.5 35B-A3B",
        bits=4,
        mac="M2 Max 64 GB (38-core GPU)",
        context=576,
        decode=79.8,
        source="Rapid-MLX, pull request 1065 (Qwen3.6)",
    ),
    Run(mac="M3 Ultra 256 GB (80-core GPU)", decode=135, **_HALLEY),
    Run(
        model="Qwen3.5 35B-A3B",
        bits=8,
        mac="M3 Ultra 512 GB (80-core GPU)",
        context=512,
        decode=73.8,
        source="Rapid-MLX, issue 472 (Qwen3.6)",
    ),
    Run(
        model="Qwen3.5 35B-A3B",
        bits=4,
        experts="mxfp4",
        mac="M3 Max 48 GB (40-core GPU)",
        context=64,
        decode=106,
        source="osaurus, issue 2211 (Qwen3.6, mlx_lm.generate)",
    ),
    Run(bits=4, decode=45.7, **_M3_ULTRA),
    Run(bits=6, decode=41.8, **_M3_ULTRA),
    Run(bits=8, decode=33.0, **_M3_ULTRA),
    Run(mac="M4 Pro 24 GB (20-core GPU)", decode=85, **_HALLEY),
    Run(
        model="Qwen3.5 35B-A3B",
        bits=4,
        mac="M5 Pro 48 GB (20-core GPU)",
        context=200,
        decode=74.1,
        source="llmfit, pull request 1053 (Qwen3.6)",
    ),
    Run(
        model="Qwen3.5 35B-A3B",
        bits=4,
        mac="M5 Max 128 GB (40-core GPU)",
        context=2490,
        decode=133,
        source="magicnight/Mac-MLX, issue 24 (mlx-swift)",
    ),
]


@cache
def estimator_of(run: Run) -> Estimator:
    """Return the estimator of a run's model, with the weights that mlx-lm would load."""
    config = _COMMON | CONFIGS[run.model]
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    model = module.Model(module.ModelArgs.from_dict(config))
    model.set_dtype(mx.bfloat16)
    nn.quantize(model, run.group, run.bits, class_predicate=lambda *each: _form(run, *each))
    parameters: list[tuple[str, mx.array]] = tree_flatten(model.parameters())
    tensors = [
        Tensor(name=name, dtype=_DTYPES[a.dtype], shape=tuple(a.shape), nbytes=a.nbytes)
        for name, a in parameters
    ]
    group = 32 if run.experts == "mxfp4" else run.group
    quantized = config | {"quantization": {"bits": run.bits, "group_size": group}}
    return Estimator(
        read_shape(config), weigh(tensors, quantized), Computing(gpu=True, storage="stored")
    )


def _form(run: Run, path: str, module: nn.Module) -> bool | dict[str, Any]:
    """Return how a module is quantized, as mlx-lm's converter does it."""
    if not hasattr(module, "to_quantized"):
        return False
    if path.endswith((".gate", ".router")):
        return {"group_size": run.group, "bits": 8}
    if run.experts == "mxfp4" and ".experts." in path:
        return {"group_size": 32, "bits": 4, "mode": "mxfp4"}
    return True
