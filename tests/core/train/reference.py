"""An independent reference in float64 NumPy: a Llama with adapters, and the losses over it.

Written from the papers, not from the code that it checks. Gradients are central differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = Any


class Llama:
    """The forward pass of a Llama from its weights by name."""

    def __init__(self, weights: Mapping[str, Array], config: Mapping[str, Any]) -> None:
        self.weights = {name: np.asarray(w, np.float64) for name, w in weights.items()}
        self.config = config
        self.adapters: dict[str, Array] = {}
        self.scales: dict[str, float] = {}

    def linear(self, path: str, x: Array, *, adapted: bool) -> Array:
        y = x @ self.weights[f"{path}.weight"].T
        if adapted and f"{path}.lora_a" in self.adapters:
            update = x @ self.adapters[f"{path}.lora_a"] @ self.adapters[f"{path}.lora_b"]
            y = y + self.scales[path] * update
        return y

    def logps(self, tokens: Sequence[int], *, adapted: bool = True) -> Array:
        """Return log p of each token after the first, given those before it."""
        c = self.config
        h = self.weights["model.embed_tokens.weight"][list(tokens[:-1])]
        for layer in range(c["num_hidden_layers"]):
            path = f"model.layers.{layer}"
            h = h + self.attention(path, self.norm(f"{path}.input_layernorm", h), adapted)
            x = self.norm(f"{path}.post_attention_layernorm", h)
            gate = self.linear(f"{path}.mlp.gate_proj", x, adapted=adapted)
            up = self.linear(f"{path}.mlp.up_proj", x, adapted=adapted)
            inner = gate / (1 + np.exp(-gate)) * up
            h = h + self.linear(f"{path}.mlp.down_proj", inner, adapted=adapted)
        logits = self.norm("model.norm", h) @ self.weights["model.embed_tokens.weight"].T
        top = logits.max(axis=-1, keepdims=True)
        whole = np.log(np.exp(logits - top).sum(axis=-1, keepdims=True)) + top
        return np.take_along_axis(logits - whole, np.array(tokens[1:])[:, None], axis=-1)[:, 0]

    def norm(self, path: str, x: Array) -> Array:
        scale = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.config["rms_norm_eps"])
        return x * scale * self.weights[f"{path}.weight"]

    def attention(self, path: str, x: Array, adapted: bool) -> Array:
        c = self.config
        heads, groups = c["num_attention_heads"], c["num_key_value_heads"]
        size = c["hidden_size"] // heads
        count = len(x)

        def split(name: str, number: int) -> Array:
            y = self.linear(f"{path}.self_attn.{name}", x, adapted=adapted)
            return y.reshape(count, number, size).transpose(1, 0, 2)

        q = self.rotate(split("q_proj", heads))
        k = np.repeat(self.rotate(split("k_proj", groups)), heads // groups, axis=0)
        v = np.repeat(split("v_proj", groups), heads // groups, axis=0)
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(size)
        scores = np.where(np.tril(np.ones((count, count), bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = weights / weights.sum(axis=-1, keepdims=True) @ v
        flat = mixed.transpose(1, 0, 2).reshape(count, -1)
        return self.linear(f"{path}.self_attn.o_proj", flat, adapted=adapted)

    def rotate(self, x: Array) -> Array:
        half = x.shape[-1] // 2
        speeds = self.config["rope_theta"] ** (-np.arange(half) / half)
        angles = np.arange(x.shape[1])[:, None] * speeds
        a, b = x[..., :half], x[..., half:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def softplus(x: float) -> float:
    return float(np.log1p(np.exp(-abs(x))) + max(x, 0.0))


def sft(model: Llama, rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> float:
    """Return the mean NLL over all tokens that the masks count."""
    total, count = 0.0, 0
    for tokens, mask in rows:
        counted = np.array(mask[1:], float)
        total -= float((model.logps(tokens) * counted).sum())
        count += int(counted.sum())
    return total / count


def response_sum(model: Llama, row: Any, *, adapted: bool = True) -> float:
    tokens, mask = row
    return float((model.logps(tokens, adapted=adapted) * np.array(mask[1:], float)).sum())


def dpo(model: Llama, pairs: Sequence[tuple[Any, Any]], beta: float) -> float:
    losses = []
    for chosen, rejected in pairs:
        policy = response_sum(model, chosen) - response_sum(model, rejected)
        base = response_sum(model, chosen, adapted=False) - response_sum(
            model, rejected, adapted=False
        )
        losses.append(softplus(-beta * (policy - base)))
    return float(np.mean(losses))


def orpo(model: Llama, pairs: Sequence[tuple[Any, Any]], weight: float, *, full: bool) -> float:
    likely = [(tokens, [1] * len(tokens) if full else mask) for (tokens, mask), _ in pairs]
    ratios = []
    for chosen, rejected in pairs:
        mean_c = response_sum(model, chosen) / sum(chosen[1])
        mean_r = response_sum(model, rejected) / sum(rejected[1])
        odds_c, odds_r = (np.exp(m) / (1 - np.exp(m)) for m in (mean_c, mean_r))
        ratios.append(softplus(-float(np.log(odds_c / odds_r))))
    return sft(model, likely) + weight * float(np.mean(ratios))


def slope(loss: Callable[[], float], array: Array, index: tuple[int, ...]) -> float:
    """Return ∂ loss / ∂ array[index] by a central difference."""
    step, kept = 1e-6, array[index]
    array[index] = kept + step
    high = loss()
    array[index] = kept - step
    low = loss()
    array[index] = kept
    return (high - low) / (2 * step)


def adamw(
    w: Array,
    grads: Sequence[Array],
    rates: Sequence[float],
    decay: float,
) -> Array:
    """Return parameters after AdamW's steps (Loshchilov and Hutter 2019, algorithm 2)."""
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, (g, rate) in enumerate(zip(grads, rates, strict=True), 1):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        w = w - rate * (m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8) + decay * w)
    return w
