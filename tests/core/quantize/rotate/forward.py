"""A forward of our own in NumPy and float64, for Llama, Qwen 2 and 3, Mixtral, Phi 3 and Granite.

Written from the papers, not from mlx-lm. `T` tokens, `n` hidden size, `H` heads, `D` head size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.utils import tree_flatten

Array = npt.NDArray[np.float64]


def logits(model: Any, config: Mapping[str, Any], tokens: list[int]) -> Array:
    """Return [T, V]."""
    arrays = {
        path: np.array(array.astype(mx.float64, stream=mx.cpu))
        for path, array in tree_flatten(model.parameters())
    }
    return _Forward(arrays, config).logits(tokens)


class _Forward:
    def __init__(self, arrays: dict[str, Array], config: Mapping[str, Any]) -> None:
        self._arrays = arrays
        self._config = config
        self._heads = config["num_attention_heads"]
        self._size = config.get("head_dim") or config["hidden_size"] // self._heads

    def logits(self, tokens: list[int]) -> Array:
        x = self._arrays["model.embed_tokens.weight"][tokens] * self._factor("embedding")
        for index in range(self._config["num_hidden_layers"]):
            path = f"model.layers.{index}"
            mixed = self._attention(f"{path}.self_attn", self._norm(f"{path}.input_layernorm", x))
            x = x + mixed * self._factor("residual")
            inner = self._mlp(path, self._norm(f"{path}.post_attention_layernorm", x))
            x = x + inner * self._factor("residual")
        x = self._norm("model.norm", x)
        tied = self._config["tie_word_embeddings"]
        made: Array = x @ self._arrays["model.embed_tokens.weight" if tied else "lm_head.weight"].T
        return made / float(self._config.get("logits_scaling", 1.0))

    def _factor(self, name: str) -> float:
        """Return what Granite multiplies a part by."""
        return float(self._config.get(f"{name}_multiplier", 1.0))

    def _linear(self, path: str, x: Array) -> Array:
        made: Array = x @ self._arrays[f"{path}.weight"].T
        bias = self._arrays.get(f"{path}.bias")
        return made if bias is None else made + bias

    def _norm(self, path: str, x: Array) -> Array:
        weight = self._arrays.get(f"{path}.weight")
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + self._config["rms_norm_eps"])
        return x if weight is None else x / scale * weight

    def _attention(self, path: str, x: Array) -> Array:
        if f"{path}.qkv_proj.weight" in self._arrays:
            fused = self._linear(f"{path}.qkv_proj", x)
            kept = self._heads * self._size
            keys = (fused.shape[-1] - kept) // 2
            q, k, v = np.split(fused, [kept, kept + keys], axis=-1)
        else:
            q, k, v = (self._linear(f"{path}.{name}_proj", x) for name in "qkv")
        q, k, v = (each.reshape(len(x), -1, self._size) for each in (q, k, v))  # [T, H, D]
        q, k = self._norm(f"{path}.q_norm", q), self._norm(f"{path}.k_norm", k)
        q, k = self._turned(q), self._turned(k)
        groups = q.shape[1] // k.shape[1]
        k, v = np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)
        scores = np.einsum("thd,shd->hts", q, k)
        scores = scores * self._config.get("attention_multiplier", self._size**-0.5)
        scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        mixed = np.einsum("hts,shd->thd", _softmax(scores), v)
        return self._linear(f"{path}.o_proj", mixed.reshape(len(x), -1))

    def _turned(self, x: Array) -> Array:
        """Apply rotary positions: channel i turns with channel i + D/2."""
        half = self._size // 2
        rates = self._config["rope_theta"] ** (-np.arange(half) / half)
        angles = np.arange(len(x))[:, None, None] * rates
        first, second = x[..., :half], x[..., half:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    def _mlp(self, layer: str, x: Array) -> Array:
        if f"{layer}.block_sparse_moe.gate.weight" in self._arrays:
            return self._experts(f"{layer}.block_sparse_moe", x)
        path = f"{layer}.mlp"
        if f"{path}.gate_up_proj.weight" in self._arrays:
            gate, up = np.split(self._linear(f"{path}.gate_up_proj", x), 2, axis=-1)
        else:
            gate, up = self._linear(f"{path}.gate_proj", x), self._linear(f"{path}.up_proj", x)
        return self._linear(f"{path}.down_proj", _silu(gate) * up)

    def _experts(self, path: str, x: Array) -> Array:
        scores = self._linear(f"{path}.gate", x)
        gate, up, down = (
            self._arrays[f"{path}.switch_mlp.{name}_proj.weight"] for name in ("gate", "up", "down")
        )
        made = np.zeros_like(x)
        for row, some in enumerate(scores):
            best = np.argsort(-some)[: self._config["num_experts_per_tok"]]
            for share, expert in zip(_softmax(some[best]), best, strict=True):
                inner = _silu(gate[expert] @ x[row]) * (up[expert] @ x[row])
                made[row] += share * (down[expert] @ inner)
        return made


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    made: Array = powers / powers.sum(-1, keepdims=True)
    return made


def _silu(x: Array) -> Array:
    made: Array = x / (1 + np.exp(-x))
    return made
