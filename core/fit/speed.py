"""How fast a model would run, from what its machine reads and multiplies in a second.

Decoding reads every active weight and the KV of each row once a token: it is bound by bandwidth.
Prefill multiplies each token with every active weight: it is bound by operations. The shares of the
advertised figures that MLX reaches are means over published runs of mlx-lm; `docs/fit.md` lists
them beside the predictions. Layers of experts take time beyond their reads, which depends on the
chip (`machines.toml`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.fit.shapes import Attention, Latent

if TYPE_CHECKING:
    from core.fit.machines import Speed
    from core.fit.memory import Estimator
    from core.fit.shapes import Mixer

# The part of the advertised bandwidth that decoding reaches, and what a layer costs beside it.
BANDWIDTH_SHARE = 0.85
LAYER_SECONDS = 40e-6
# The part of the FP16 operations that prefill reaches.
FP16_SHARE = 0.75


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """How fast a model would run."""

    decode: float
    """Tokens a second of all rows together."""
    prefill: float | None
    """Prompt tokens a second over a prompt that fills the context; None: unknown."""
    ttft: float | None
    """Seconds from such a prompt to its first token; None: unknown."""


def predict(estimator: Estimator, speed: Speed, *, context: int, rows: int) -> Prediction | None:
    """Return how fast a model would run; None when the machine's bandwidth is not known.

    Args:
        estimator: of the model.
        speed: of the machine.
        context: tokens that each row has.
        rows: rows that decode together.
    """
    if speed.bandwidth is None:
        return None
    step = _decode_seconds(estimator, speed, context, rows)
    prefill = None
    if speed.fp16 is not None:
        alone = _decode_seconds(estimator, speed, context, 1)
        prefill = _prefill_seconds(estimator, speed.bandwidth, speed.fp16, context)
        return Prediction(decode=rows / step, prefill=context / prefill, ttft=prefill + alone)
    return Prediction(decode=rows / step, prefill=None, ttft=None)


def _decode_seconds(estimator: Estimator, speed: Speed, context: int, rows: int) -> float:
    """Return what a step of all rows takes, on a machine whose bandwidth is known."""
    assert speed.bandwidth is not None
    layers = estimator.shape.layers
    experts = sum(layer.feed is not None and layer.feed.experts > 0 for layer in layers)
    read = estimator.weights.read_bytes(estimator.computing.storage, rows)
    read += rows * sum(layer.bytes(context) for layer in estimator.kv.layers)
    beside = len(layers) * LAYER_SECONDS + experts * speed.expert_layer
    return read / (BANDWIDTH_SHARE * speed.bandwidth) + beside


def _prefill_seconds(estimator: Estimator, bandwidth: float, fp16: float, context: int) -> float:
    """Return what a prompt takes: its operations, but at least reading the weights each chunk."""
    operations = prefill_operations(estimator, context)
    chunks = -(-context // estimator.computing.prefill_tokens)
    read = chunks * estimator.weights.bytes_in(estimator.computing.storage)
    return max(operations / (FP16_SHARE * fp16), read / (BANDWIDTH_SHARE * bandwidth))


def prefill_operations(estimator: Estimator, tokens: int) -> float:
    """Return the additions and multiplications of a prompt.

    Two for each token and active weight, but for the output head, which only the last token needs;
    and four for each pair of tokens, head and number of attention, of which a causal mask leaves
    half.
    """
    shape, weights = estimator.shape, estimator.weights
    head = shape.hidden * shape.vocabulary
    products = 2.0 * tokens * max(0, weights.active_parameters - head)
    return products + sum(_pair_operations(mixer, tokens) for mixer in shape.mixers())


def _pair_operations(mixer: Mixer, tokens: int) -> float:
    if isinstance(mixer, Attention):
        seen = tokens / 2 if mixer.window is None else min(tokens / 2, mixer.window)
        return 2.0 * mixer.heads * (mixer.head_dim + mixer.value_dim) * tokens * seen
    if isinstance(mixer, Latent):
        size = mixer.nope_dim + mixer.rope_dim + mixer.value_dim
        return 2.0 * mixer.heads * size * tokens * tokens / 2
    return 0.0
