"""Tiny random models of mlx-lm, written as GGUF by the package `gguf`, which llama.cpp's own
converter uses: names, blocks and bytes are its.

What the converter does beside that is written down here a second time: the order of rows of
llama's queries and keys, and the 1 that gemma's norms get.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gguf
import mlx.core as mx
import numpy as np
from gguf import GGMLQuantizationType as Kind
from mlx.utils import tree_flatten

from tests.ggufs import TOKENS, tokenizer_metadata

if TYPE_CHECKING:
    from pathlib import Path

HIDDEN, INNER, HEADS, KV_HEADS, HEAD, LAYERS, CONTEXT = 256, 256, 4, 2, 64, 2, 128
_BASE = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "rms_norm_eps": 1e-5,
    "vocab_size": len(TOKENS),
    "max_position_embeddings": CONTEXT,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
_GEMMA = {"head_dim": 2 * HEAD, "query_pre_attn_scalar": 2 * HEAD, "tie_word_embeddings": True}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **_BASE},
    "qwen2": {"model_type": "qwen2", **_BASE},
    "qwen3": {"model_type": "qwen3", **_BASE, "head_dim": 2 * HEAD},
    "gemma2": {"model_type": "gemma2", **_BASE, **_GEMMA},
    "gemma3": {"model_type": "gemma3_text", **_BASE, **_GEMMA, "sliding_window": 8,
               "sliding_window_pattern": 2},
    "phi3": {"model_type": "phi3", **_BASE},
}  # fmt: skip
"""mlx-lm's configs by GGUF's names of the architectures."""
KINDS = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4")
"""What the package quantizes to."""
# Of the others it only reads: where in a block float16 steps are, and how large to make them.
STEPS = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
         "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ2_S": (0,), "IQ3_XXS": (0,), "IQ3_S": (0,),
         "IQ1_S": (0,), "IQ1_M": (), "IQ4_NL": (0,), "IQ4_XS": (0,), "TQ1_0": (52,),
         "TQ2_0": (64,)}  # fmt: skip


@dataclass
class Written:
    """A GGUF file's contents."""

    arch: str
    metadata: dict[str, Any]
    tensors: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """By the file's names: kind and bytes, [R, bytes of a row] or [R, C]."""
    meant: dict[str, Any] = field(default_factory=dict)
    """By MLX's names: the float32 values that the bytes mean, in MLX's order."""

    def write(self, path: Path, *, tensors_per_file: int = 0) -> Path:
        """Write the file, or several; return the first one."""
        writer = gguf.GGUFWriter(path, self.arch, split_max_tensors=tensors_per_file)
        for key, value in self.metadata.items():
            _adder(writer, value)(key, value)
        for name, (kind, data) in self.tensors.items():
            writer.add_tensor(name, data, raw_dtype=Kind[kind])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path if path.exists() else sorted(path.parent.glob(f"{path.stem}-00001*"))[0]


def random_model(arch: str, **changes: Any) -> Any:
    """Return a model of mlx-lm with random float32 weights, norms and biases among them."""
    config = CONFIGS[arch] | changes
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    model = module.Model(module.ModelArgs.from_dict(config))
    random = np.random.default_rng(7)
    untied = not config["tie_word_embeddings"]
    if arch == "gemma3":
        model.sanitize({})
    weights = {}
    for name, value in dict(tree_flatten(model.parameters())).items():
        base = 1.0 if "norm" in name and not arch.startswith("gemma") else 0.0
        drawn = base + random.normal(0, 0.1, value.shape)
        weights[name] = mx.array(drawn.astype(np.float32))
    assert untied == ("lm_head.weight" in weights)
    model.load_weights(list(weights.items()))
    return model


def as_gguf(arch: str, model: Any, kind: str = "F32", **metadata: Any) -> Written:
    """Return a model as a GGUF file with matrices of one kind would hold it."""
    made = Written(arch, {**_metadata(arch, model.args), **tokenizer_metadata(), **metadata})
    names = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, arch.upper()), LAYERS)
    for name, value in dict(tree_flatten(model.parameters())).items():
        values = np.array(value)
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert stored is not None, name
        shift = 1.0 if arch.startswith("gemma") and "norm" in name else 0.0
        heads = _heads(arch, name)
        if values.ndim == 1:
            made.tensors[stored] = ("F32", values + np.float32(shift))
            made.meant[name] = values
            continue
        data, meant = blocks(kind, interleaved(values, heads))
        made.tensors[stored] = (kind, data)
        made.meant[name] = separated(meant, heads)
    return made


def blocks(kind: str, values: Any) -> tuple[Any, Any]:
    """Return the bytes of a matrix in one of GGUF's kinds, and what they mean.

    Kinds that the package does not quantize to get random bytes with small steps.
    """
    if kind in KINDS:
        data = gguf.quantize(values, Kind[kind])
    else:
        count, size = gguf.GGML_QUANT_SIZES[Kind[kind]]
        random = np.random.default_rng(values.size)
        shape = (values.shape[0], values.shape[1] // count, size)
        whole = random.integers(0, 256, shape, np.uint8)
        for place in STEPS[kind]:
            steps = random.uniform(1e-4, 1e-3, shape[:2]).astype("<f2")
            whole[..., place : place + 2] = steps[..., None].view(np.uint8)
        if kind == "IQ1_M":  # its step lies in the high halves of four 16-bit numbers
            whole[..., 49::2] = (whole[..., 49::2] & 0x0F) | np.array([0, 0, 0, 0x10], np.uint8)
        data = whole.reshape(values.shape[0], -1)
    return data, gguf.dequantize(data, Kind[kind]).astype(np.float32)


def interleaved(values: Any, heads: int | None) -> Any:
    """Put the rows of each head in GGUF's order, as llama.cpp's converter does."""
    if heads is None:
        return values
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))


def separated(values: Any, heads: int | None) -> Any:
    """Undo `interleaved`."""
    order = interleaved(np.arange(len(values)), heads)
    usual = np.empty_like(values)
    usual[order] = values
    return usual


def _heads(arch: str, name: str) -> int | None:
    if arch != "llama":
        return None
    return {"q_proj": HEADS, "k_proj": KV_HEADS}.get(name.split(".")[-2])


def _metadata(arch: str, args: Any) -> dict[str, Any]:
    head = getattr(args, "head_dim", None) or HEAD
    facts: dict[str, Any] = {
        "block_count": LAYERS,
        "context_length": CONTEXT,
        "embedding_length": HIDDEN,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10000.0,
        "vocab_size": len(TOKENS),
    }
    if arch in ("qwen3", "gemma2", "gemma3"):
        facts |= {"attention.key_length": head, "attention.value_length": head}
    if arch == "gemma2":
        facts |= {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
        facts |= {"attention.sliding_window": 4096}
    if arch == "gemma3":
        facts |= {"attention.sliding_window": 8, "attention.sliding_window_pattern": 2}
    if arch == "phi3":
        facts |= {"rope.dimension_count": head}
    return {f"{arch}.{key}": value for key, value in facts.items()}


def _adder(writer: Any, value: Any) -> Any:
    kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32,
             str: writer.add_string, list: writer.add_array}  # fmt: skip
    return kinds[type(value)]
