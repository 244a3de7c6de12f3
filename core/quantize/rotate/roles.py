"""Which tensors of a model read its residual stream, and which write to it.

mlx-lm has no common words for this; the names below are those that its architectures use. A name
that means something else in an architecture does no harm: rotated and original models are compared
before anything is written (`trial`).

`n` hidden size, `V` vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

from core.engine.split import row_of
from core.quantize.rotate.turn import working_type

READERS = frozenset({
    "q_proj", "k_proj", "v_proj", "qkv_proj", "q_k_v_proj", "query_key_value", "wqkv", "W_pack",
    "Wqkv", "c_attn", "c_q", "c_k", "c_v", "q_a_proj", "kv_proj", "kv_a_proj_with_mqa", "g_proj",
    "b_proj", "f_a_proj", "g_a_proj", "wk", "weights_proj", "in_proj", "in_proj_qkvz",
    "in_proj_ba", "in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "linear_x", "linear_y",
    "gate_proj", "up_proj", "gate_up_proj", "w1", "w3", "v1", "c_fc", "c_fc_0", "c_fc_1", "fc1",
    "proj_1", "input_linear", "gate", "router", "layer", "wg", "classifier", "shared_expert_gate",
    "coefficient", "proj",
})  # fmt: skip
"""Linear layers that take the normed residual: their inputs are rotated."""
WRITERS = frozenset({
    "o_proj", "out_proj", "dense", "wo", "c_proj", "linear_out", "down_proj", "w2", "fc2",
    "proj_2", "output_linear",
})  # fmt: skip
"""Linear layers whose outputs are added to the residual: their outputs are rotated."""
MIXERS = frozenset({
    "self_attn", "attention", "attn", "linear_attn", "mamba", "conv", "mixer", "temporal_block",
})  # fmt: skip
"""Parts of a layer that mix positions."""
MLPS = frozenset({
    "mlp", "feed_forward", "block_sparse_moe", "shared_mlp", "ffn", "mlp_block", "moe",
    "shared_experts",
})  # fmt: skip
"""Parts of a layer that work on each position."""
MIXER_NORMS = frozenset({
    "input_layernorm", "ln_1", "operator_norm", "attention_norm", "attn_norm",
    "attention_layernorm", "temporal_pre_norm", "pre_mixer_norm", "norm",
})  # fmt: skip
"""Norms before a mixer; before an MLP as well where the layer has no other."""
MLP_NORMS = frozenset({
    "post_attention_layernorm", "ln_2", "ffn_norm", "feedforward_layernorm", "pre_ff_layernorm",
    "pre_mlp_layernorm", "channel_pre_norm", "pre_mlp_norm",
})  # fmt: skip
"""Norms before an MLP."""
POST_NORMS = frozenset({
    "post_feedforward_layernorm", "post_mlp_layernorm", "post_self_attn_layernorm",
    "post_mixer_norm", "post_mlp_norm",
})  # fmt: skip
"""Norms of what a mixer or an MLP adds to the residual; a rotation does not pass their weights."""
HEADS = frozenset({
    "lm_head", "output", "embed_out",
})  # fmt: skip
"""Linear layers that make logits."""


class CannotRotateError(Exception):
    """A model cannot be rotated; the text is why, as a clause."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where the parts of a model lie, as paths of modules."""

    row: str
    """The list of layers: `model.layers`."""
    embedding: str
    """The token embedding, [V, n]."""
    norm: str | None
    """The last norm; None: it has no weight."""
    head: str | None
    """The head, [V, n]; None: the embedding serves as head."""
    size: int
    """`n`."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What a norm multiplies each channel by."""

    path: str
    """The norm's weight, as a path."""
    weight: mx.array
    """The same, [n]."""
    offset: float
    """Added to the weight: 1 in the norms of Gemma, else 0."""

    def factors(self) -> mx.array:
        """Return the gain, [n], with no rounding of its own."""
        with mx.stream(mx.cpu):
            return self.weight.astype(working_type(self.weight.dtype)) + self.offset


def parameters(model: Any) -> dict[str, mx.array]:
    """Return a module's arrays by their paths."""
    return dict(tree_flatten(model.parameters()))


def find_places(model: Any) -> Places:
    """Return where a model's parts lie.

    Raises:
        CannotRotateError: it has not exactly one embedding and one last norm where they are looked
            for.
    """
    row = row_path(model)
    owner = row.rpartition(".")[0]
    body = module_at(model, owner)
    tables = [name for name, child in body.items() if isinstance(child, nn.Embedding)]
    if len(tables) != 1:
        raise CannotRotateError(f"it has {len(tables)} embeddings where one is expected")
    norms = [name for name, child in body.items() if is_norm(child)]
    if len(norms) > 1:
        raise CannotRotateError(f"it has several norms beside its layers ({', '.join(norms)})")
    embedding = _joined(owner, tables[0])
    shape = body[tables[0]].weight.shape
    return Places(
        row=row,
        embedding=embedding,
        norm=_joined(owner, norms[0]) if norms else None,
        head=_head(model, owner, shape),
        size=shape[1],
    )


def is_norm(module: Any) -> bool:
    """Return whether a module is a norm, by the name of its class."""
    return isinstance(module, nn.Module) and "Norm" in type(module).__name__


def gain_of(norm: Any, path: str, size: int) -> Gain:
    """Return how a norm uses its weight, found by calling it.

    Raises:
        CannotRotateError: it does not commute with rotations, such as a norm that subtracts the
            mean.
    """
    names = set(parameters(norm))
    if names != {"weight"} or norm.weight.shape != (size,):
        raise CannotRotateError(f"{path} ({type(norm).__name__}) is more than a scaled RMS norm")
    probe = mx.concatenate([mx.zeros((size - size // 2,)), mx.ones((size // 2,))])[None]
    expected = probe * mx.rsqrt(mx.mean(probe * probe))
    zero, one = _called(norm, 0.0, probe), _called(norm, 1.0, probe)
    for offset in (0.0, 1.0):
        if _near(zero, expected * offset) and _near(one, expected * (1 + offset)):
            return Gain(path=f"{path}.weight", weight=norm.weight, offset=offset)
    raise CannotRotateError(f"{path} ({type(norm).__name__}) is not a root-mean-square norm")


def _called(norm: Any, weight: float, probe: mx.array) -> mx.array:
    kept = norm.weight
    try:
        norm.weight = mx.full(kept.shape, weight)
        found: mx.array = norm(probe)
        return found
    finally:
        norm.weight = kept


def _near(found: mx.array, expected: mx.array) -> bool:
    return bool(mx.allclose(found, expected, atol=1e-2).item())


def row_path(model: Any) -> str:
    """Return where a model's list of layers lies.

    Raises:
        CannotRotateError: it has none.
    """
    first = row_of(model)[0]
    for path, module in model.named_modules():
        if module is first and path.endswith(".0"):
            return str(path[: -len(".0")])
    raise CannotRotateError("its layers are not a list of modules")


def _head(model: Any, owner: str, shape: tuple[int, ...]) -> str | None:
    for prefix in dict.fromkeys((owner, owner.rpartition(".")[0], "")):
        holder = module_at(model, prefix)
        for name in sorted(HEADS & set(holder)):
            if getattr(holder[name], "weight", mx.zeros(0)).shape == shape:
                return _joined(prefix, name)
            raise CannotRotateError(f"its head {_joined(prefix, name)} is not a plain linear layer")
    return None


def module_at(model: Any, path: str) -> Any:
    """Return a model's module by its path; an empty path is the model."""
    found = model
    for part in path.split(".") if path else ():
        found = found[int(part)] if part.isdigit() else found[part]
    return found


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)
