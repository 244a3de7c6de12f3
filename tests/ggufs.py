"""Writes small GGUF files for tests, with its own quantizers and its own reading of their values.

Nothing here is taken from `core.registry.gguf`: what a block means is written down a second time.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pathlib import Path

Floats = npt.NDArray[np.float32]
TYPE_NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8}


@dataclass
class Tensor:
    """A tensor to write: the bytes, and the values that they stand for."""

    kind: str
    values: Floats
    data: bytes = field(default=b"")


def quantize(kind: str, values: Floats) -> Tensor:
    """Return the tensor in one of GGUF's kinds; `values` becomes what the bytes mean."""
    if kind == "F32":
        return Tensor(kind, values, values.astype("<f4").tobytes())
    if kind == "F16":
        return Tensor(kind, values.astype("<f2").astype(np.float32), values.astype("<f2").tobytes())
    rows = values.reshape(-1, 32)
    blocks = [_BLOCKS[kind](row) for row in rows]
    meant = np.array([meaning for _, meaning in blocks], np.float32).reshape(values.shape)
    return Tensor(kind, meant, b"".join(data for data, _ in blocks))


def _q8_0(row: Floats) -> tuple[bytes, Floats]:
    step = np.float16(np.abs(row).max() / 127)
    whole = np.clip(np.round(row / np.float32(step)), -127, 127).astype(np.int8)
    return step.tobytes() + whole.tobytes(), np.float32(step) * whole


def _q4_0(row: Floats) -> tuple[bytes, Floats]:
    step = np.float16(np.abs(row).max() / 7)
    whole = np.clip(np.round(row / np.float32(step)) + 8, 0, 15).astype(np.uint8)
    return step.tobytes() + _pair(whole), np.float32(step) * (whole.astype(np.float32) - 8)


def _q4_1(row: Floats) -> tuple[bytes, Floats]:
    least = np.float16(row.min())
    step = np.float16((row.max() - row.min()) / 15)
    whole = np.clip(np.round((row - np.float32(least)) / np.float32(step)), 0, 15).astype(np.uint8)
    meant = np.float32(step) * whole.astype(np.float32) + np.float32(least)
    return step.tobytes() + least.tobytes() + _pair(whole), meant


def _pair(whole: npt.NDArray[np.uint8]) -> bytes:
    return bytes(int(whole[i]) | int(whole[i + 16]) << 4 for i in range(16))


_BLOCKS = {"Q8_0": _q8_0, "Q4_0": _q4_0, "Q4_1": _q4_1}


def write_gguf(
    path: Path, metadata: dict[str, Any], tensors: dict[str, Tensor], *, version: int = 3
) -> Path:
    """Write a GGUF file."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(_text(key) + _value(value) for key, value in metadata.items())
    body = b""
    for name, tensor in tensors.items():
        shape = tensor.values.shape[::-1]
        head += _text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += struct.pack("<IQ", TYPE_NUMBERS[tensor.kind], len(body))
        body += tensor.data + bytes(-len(tensor.data) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + body)
    return path


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    number, data = _typed(value)
    return struct.pack("<I", number) + data


def _typed(value: Any) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, _text(value)
    inner = [_typed(item) for item in value]
    kind = inner[0][0]
    return 9, struct.pack("<IQ", kind, len(inner)) + b"".join(data for _, data in inner)


BYTES = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256))]
BYTES += [chr(256 + code) for code in range(256 - len(BYTES))]  # the byte-level alphabet


@dataclass(kw_only=True)
class TinyLlama:
    """A random llama model, as a GGUF would hold it and as float32 values in the usual order."""

    metadata: dict[str, Any]
    tensors: dict[str, Tensor]
    weights: dict[str, Floats]

    def write(self, path: Path) -> Path:
        return write_gguf(path, self.metadata, self.tensors)


HIDDEN, INNER, HEADS, KV_HEADS, HEAD, LAYERS = 64, 96, 4, 2, 16, 2
_NAMES = {
    "attn_norm": ("input_layernorm", (HIDDEN,)),
    "attn_q": ("self_attn.q_proj", (HEADS * HEAD, HIDDEN)),
    "attn_k": ("self_attn.k_proj", (KV_HEADS * HEAD, HIDDEN)),
    "attn_v": ("self_attn.v_proj", (KV_HEADS * HEAD, HIDDEN)),
    "attn_output": ("self_attn.o_proj", (HIDDEN, HEADS * HEAD)),
    "ffn_norm": ("post_attention_layernorm", (HIDDEN,)),
    "ffn_gate": ("mlp.gate_proj", (INNER, HIDDEN)),
    "ffn_up": ("mlp.up_proj", (INNER, HIDDEN)),
    "ffn_down": ("mlp.down_proj", (HIDDEN, INNER)),
}


def tiny_llama(
    kind: str = "Q4_0", *, embedding: str = "Q8_0", tied: bool = True, spare: int = 0
) -> TinyLlama:
    """Make a tiny model whose matrices are of one kind, with a byte-level tokenizer.

    `spare` is the number of embeddings that no token has, as real models keep some.
    """
    random = np.random.default_rng(0)
    tokens = TOKENS
    model = TinyLlama(metadata=_metadata(tokens), tensors={}, weights={})

    def add(name: str, path: str, shape: tuple[int, ...], kind: str) -> None:
        values = random.normal(0, 0.3, shape).astype(np.float32)
        if len(shape) == 1:
            kind, values = "F32", (1 + values).astype(np.float16).astype(np.float32)
        heads = {"attn_q": HEADS, "attn_k": KV_HEADS}.get(name.split(".")[-2])
        stored = quantize(kind, values if heads is None else interleave(values, heads))
        model.tensors[name] = stored
        usual = stored.values if heads is None else separate(stored.values, heads)
        model.weights[f"{path}.weight"] = usual

    words = (len(tokens) + spare, HIDDEN)
    add("token_embd.weight", "model.embed_tokens", words, embedding)
    for layer in range(LAYERS):
        for name, (path, shape) in _NAMES.items():
            add(f"blk.{layer}.{name}.weight", f"model.layers.{layer}.{path}", shape, kind)
    add("output_norm.weight", "model.norm", (HIDDEN,), "F32")
    if not tied:
        add("output.weight", "lm_head", words, kind)
    return model


def interleave(values: Floats, heads: int) -> Floats:
    """Put the rows of each head in GGUF's order: 0, half, 1, half + 1, ..."""
    width = len(values) // heads
    order = [
        h * width + i // 2 + (i % 2) * (width // 2) for h in range(heads) for i in range(width)
    ]
    return values[order]


def separate(values: Floats, heads: int) -> Floats:
    """Undo `interleave`, row by row."""
    rows = interleave(np.arange(len(values), dtype=np.float32)[:, None], heads)[:, 0].astype(int)
    usual = np.empty_like(values)
    usual[rows] = values
    return usual


TOKENS = [*BYTES, "he", "ll", "hell", "hello", "Ġhello", "<|im_start|>", "<|im_end|>", "<|pad|>"]


def _metadata(tokens: list[str]) -> dict[str, Any]:
    return {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.block_count": LAYERS,
        "llama.context_length": 128,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": HEAD,
        "llama.rope.freq_base": 10000.0,
        **tokenizer_metadata(tokens),
    }


def tokenizer_metadata(tokens: list[str] = TOKENS) -> dict[str, Any]:
    """Return what a file says of a byte-level tokenizer."""
    special = {"<|im_start|>": 3, "<|im_end|>": 3, "<|pad|>": 4}
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [special.get(token, 1) for token in tokens],
        "tokenizer.ggml.merges": ["h e", "l l", "he ll", "hell o", "Ġ hello"],
        "tokenizer.ggml.bos_token_id": tokens.index("<|im_start|>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.chat_template": "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>"
        "{% endfor %}",
    }
