"""Small random models whose norms and biases are not at the values that a fresh model has."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import _get_classes

from tests.tiny import llama_config

CONFIGS: dict[str, dict[str, Any]] = {
    "llama tied": llama_config(),
    "llama untied": llama_config(tie_word_embeddings=False),
    "llama with biases": llama_config(attention_bias=True, mlp_bias=True),
    "llama of odd sizes": llama_config(hidden_size=72, tie_word_embeddings=False),
    "qwen2": llama_config(model_type="qwen2"),
    "qwen3": llama_config(model_type="qwen3", head_dim=24),
    "mixtral": llama_config(
        model_type="mixtral",
        tie_word_embeddings=False,
        num_local_experts=4,
        num_experts_per_tok=2,
    ),
    "phi3": llama_config(model_type="phi3", tie_word_embeddings=False),
    "granite": llama_config(
        model_type="granite",
        embedding_multiplier=12.0,
        attention_multiplier=0.1,
        residual_multiplier=0.22,
        logits_scaling=8.0,
        attention_bias=False,
        mlp_bias=False,
    ),
}
"""Those that `forward` computes."""


def small_model(config: dict[str, Any], *, dtype: mx.Dtype = mx.float32) -> Any:
    """Return a model of an architecture."""
    mx.random.seed(0)
    model_class, args_class = _get_classes(config)
    model = stirred(model_class(args_class.from_dict(config)))
    model.update(tree_map(lambda array: array.astype(dtype, stream=mx.cpu), model.parameters()))
    model.eval()
    return model


def stirred(model: Any) -> Any:
    """Give norms and biases of a model random values, so that forgetting one is seen."""
    mx.random.seed(3)
    arrays = [
        (path, array + 0.5 * mx.random.normal(array.shape) if _is_plain(path, array) else array)
        for path, array in tree_flatten(model.parameters())
    ]
    model.load_weights(arrays)
    return model


def _is_plain(path: str, array: mx.array) -> bool:
    return path.endswith("bias") or (array.ndim == 1 and ("norm" in path or ".ln" in path))
