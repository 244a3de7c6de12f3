"""The models that quantizations are measured on: the starter off its own grid, in three forms.

The starter lies on a 4-bit grid already, which a fitted scale would find again. So it is taken to
float16, and the channels of the residual stream, of the MLP and of the values are permuted by a
fixed seed: the same function, but other weights share a scale.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

Weights = dict[str, mx.array]

SEED = 12
EXPERTS = 4
_COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "README.md",
)
_CHANGE = 0.02  # standard deviation of an expert's own part, relative to the weights'


def write_reference(starter: Path, folder: Path, kind: str = "llama", *, seed: int = SEED) -> Path:
    """Write a reference model and return its folder.

    Args:
        starter: the folder of the starter, a llama with tied embeddings in packed weights.
        folder: made; holds a complete model afterwards.
        kind: `llama`, `qwen2` (the same function) or `mixtral` (four experts, one never routed).
        seed: of permutations and experts.
    """
    config = json.loads((starter / "config.json").read_text())
    weights = permuted(dequantized(starter, config), config, seed=seed)
    config.pop("quantization", None)
    config, weights = KINDS[kind](config, weights, seed)
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    for name in _COPIED:
        if (starter / name).exists():
            shutil.copy(starter / name, folder / name)
    return folder


def dequantized(folder: Path, config: dict[str, Any]) -> Weights:
    """Return a packed model's weights in float16."""
    stored: Any = mx.load(str(folder / "model.safetensors"))
    packing = config.get("quantization", {})
    whole = {k: v for k, v in packing.items() if isinstance(v, int)}
    found: Weights = {}
    for name, array in stored.items():
        stem = name.rpartition(".")[0]
        if name.endswith((".scales", ".biases")):
            continue
        values = array
        if f"{stem}.scales" in stored:
            scales, biases = stored[f"{stem}.scales"], stored[f"{stem}.biases"]
            values = mx.dequantize(array, scales, biases, **(whole | packing.get(stem, {})))
        found[name] = values.astype(mx.float16)
    return found


def permuted(weights: Weights, config: dict[str, Any], *, seed: int) -> Weights:
    """Return a llama's weights with its residual, MLP and value channels in another order."""
    rng = np.random.default_rng(seed)
    residual = rng.permutation(config["hidden_size"])
    orders = [_orders(config, residual, rng) for _ in range(config["num_hidden_layers"])]
    outside = {"embed_tokens": (None, residual), "lm_head": (None, residual), "norm": (residual,)}
    found = {}
    for name, array in weights.items():
        parts = name.split(".")
        known = orders[int(parts[2])] if parts[1] == "layers" else outside
        found[name] = _taken(array, known[parts[-2]])
    return found


def _orders(config: dict[str, Any], residual: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Return for each part of a layer the new order of its dimensions; None: as it is.

    The channels of q and k stay: each belongs to a position's angle.
    """
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads
    mlp = rng.permutation(config["intermediate_size"])
    values = np.stack([rng.permutation(size) for _ in range(kv_heads)])
    return {
        "input_layernorm": (residual,),
        "post_attention_layernorm": (residual,),
        "q_proj": (None, residual),
        "k_proj": (None, residual),
        "v_proj": (_flat(values), residual),
        "o_proj": (residual, _flat(np.repeat(values, heads // kv_heads, axis=0))),
        "gate_proj": (mlp, residual),
        "up_proj": (mlp, residual),
        "down_proj": (residual, mlp),
    }


def _taken(array: mx.array, orders: tuple[Any, ...]) -> mx.array:
    """Return an array with each dimension in its new order."""
    found = array
    for axis, order in enumerate(orders):
        if order is not None:
            found = mx.take(found, mx.array(order), axis=axis)
    return found


def _flat(orders: Any) -> Any:
    """Return the order of all heads' channels, from each head's own [heads, size]."""
    heads, size = orders.shape
    return (orders + size * np.arange(heads)[:, None]).reshape(-1)


def _llama(config: dict[str, Any], weights: Weights, _seed: int) -> tuple[dict[str, Any], Weights]:
    return config, weights


def _qwen2(config: dict[str, Any], weights: Weights, _seed: int) -> tuple[dict[str, Any], Weights]:
    """Return the same function as a qwen2, whose q, k and v have biases: zeros here."""
    more = {
        name.removesuffix("weight") + "bias": mx.zeros((array.shape[0],), array.dtype)
        for name, array in weights.items()
        if name.split(".")[-2] in ("q_proj", "k_proj", "v_proj")
    }
    kept = {k: v for k, v in config.items() if k not in ("attention_bias", "mlp_bias")}
    return kept | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}, weights | more


def _mixtral(config: dict[str, Any], weights: Weights, seed: int) -> tuple[dict[str, Any], Weights]:
    """Return a mixture of near copies of each MLP, of which one is chosen and the last never is."""
    rng = np.random.default_rng(seed)
    names = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}
    found: Weights = {}
    for name, array in weights.items():
        part = name.split(".")[-2]
        if part not in names:
            found[name] = array
            continue
        base = name.split(".mlp.")[0] + ".block_sparse_moe"
        for expert in range(EXPERTS):
            found[f"{base}.experts.{expert}.{names[part]}.weight"] = _near(array, rng)
    for layer in range(config["num_hidden_layers"]):
        found[f"model.layers.{layer}.block_sparse_moe.gate.weight"] = _router(config, rng)
    changes = {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "num_local_experts": EXPERTS,
        "num_experts_per_tok": 1,
    }
    return config | changes, found


def _near(array: mx.array, rng: np.random.Generator) -> mx.array:
    values = np.array(array.astype(mx.float32))
    noise = rng.standard_normal(values.shape).astype(np.float32) * (values.std() * _CHANGE)
    return mx.array(values + noise).astype(array.dtype)


def _router(config: dict[str, Any], rng: np.random.Generator) -> mx.array:
    """Return a router [experts, D]: the first two are opposites, so zero is never the largest."""
    first, third = rng.standard_normal((2, config["hidden_size"])) / config["hidden_size"] ** 0.5
    return mx.array(np.stack([first, -first, third, 0 * first])).astype(mx.float16)


KINDS: dict[str, Callable[[dict[str, Any], Weights, int], tuple[dict[str, Any], Weights]]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "mixtral": _mixtral,
}
