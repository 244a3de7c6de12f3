"""A made-up library: models of an invented maker, whose weights are holes with honest headers."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.caches import Tensors, write_sparse

DAY = 24 * 3600.0
_CHAT = "{% for message in messages %}{{ message.content }}{% endfor %}"
_TOOLS = _CHAT + "{% if tools %}{{ tools }}{% endif %}"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A transformer's measures."""

    hidden: int
    layers: int
    inner: int
    heads: int
    kv_heads: int
    vocab: int = 128_256

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Return rows and columns of every matrix."""
        size = self.hidden // self.heads
        layer = {
            "self_attn.q_proj": (self.hidden, self.hidden),
            "self_attn.k_proj": (self.kv_heads * size, self.hidden),
            "self_attn.v_proj": (self.kv_heads * size, self.hidden),
            "self_attn.o_proj": (self.hidden, self.hidden),
            "mlp.gate_proj": (self.inner, self.hidden),
            "mlp.up_proj": (self.inner, self.hidden),
            "mlp.down_proj": (self.hidden, self.inner),
        }
        names = [(f"model.layers.{n}.{name}", name) for n in range(self.layers) for name in layer]
        ends = dict.fromkeys(("model.embed_tokens", "lm_head"), (self.vocab, self.hidden))
        return {**ends, **{whole: layer[name] for whole, name in names}}


@dataclass(frozen=True, kw_only=True)
class Made:
    """A model that somebody might have."""

    name: str
    kind: str
    shape: Shape
    bits: int | None = None
    context: int = 131_072
    template: str | None = _TOOLS
    more: dict[str, Any] = field(default_factory=dict)

    def config(self) -> dict[str, Any]:
        """Return its config.json."""
        shape = self.shape
        packed = {"quantization": {"group_size": 64, "bits": self.bits}} if self.bits else {}
        return {
            "model_type": self.kind,
            "hidden_size": shape.hidden,
            "num_hidden_layers": shape.layers,
            "intermediate_size": shape.inner,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.hidden // shape.heads,
            "vocab_size": shape.vocab,
            "max_position_embeddings": self.context,
            "rms_norm_eps": 1e-5,
            "rope_theta": 500_000.0,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            **packed,
            **self.more,
        }

    def tensors(self) -> Tensors:
        """Return the type and the shape of every tensor."""
        found: dict[str, tuple[str, tuple[int, ...]]] = {}
        for name, (rows, columns) in self.shape.matrices().items():
            if self.bits is None:
                found[f"{name}.weight"] = ("BF16", (rows, columns))
                continue
            groups = ("BF16", (rows, columns // 64))
            found[f"{name}.weight"] = ("U32", (rows, columns * self.bits // 32))
            found |= {f"{name}.scales": groups, f"{name}.biases": groups}
        return found


_SMALL = Shape(hidden=2048, layers=16, inner=8192, heads=32, kv_heads=8)
_MIDDLE = Shape(hidden=4096, layers=32, inner=14336, heads=32, kv_heads=8)
_LARGE = Shape(hidden=5120, layers=40, inner=17408, heads=40, kv_heads=8, vocab=151_936)

RIVER = Made(name="acme/River-8B-Instruct-4bit", kind="llama", shape=_MIDDLE, bits=4)
BROOK = Made(name="acme/Brook-1B-Instruct", kind="llama", shape=_SMALL)
LAKE = Made(
    name="acme/Lake-14B-Thinking-8bit",
    kind="qwen3",
    shape=_LARGE,
    bits=8,
    context=40_960,
    template=_TOOLS + "<think>",
)
ECHO = Made(name="acme/Echo-1B-Speech", kind="whisper", shape=_SMALL, template=None)


def add(hub_cache: Path, made: Made, *, commit: str = "", used: float = 0.0) -> Path:
    """Put a model into a cache as `main` and return its snapshot.

    Args:
        hub_cache: the cache.
        made: which.
        commit: its commit; empty: made from the name.
        used: seconds since it was last used.
    """
    repo = hub_cache / f"models--{made.name.replace('/', '--')}"
    commit = commit or hashlib.sha1(made.name.encode(), usedforsecurity=False).hexdigest()
    snapshot = repo / "snapshots" / commit
    for folder in (repo / "blobs", repo / "refs", snapshot):
        folder.mkdir(parents=True, exist_ok=True)
    texts = {"config.json": json.dumps(made.config() | {"_commit": commit})}
    if made.template is not None:
        texts["chat_template.jinja"] = made.template
    for name, text in texts.items():
        blob = repo / "blobs" / hashlib.sha256(text.encode()).hexdigest()
        blob.write_text(text, encoding="utf-8")
        _link(snapshot / name, blob, used)
    weights = repo / "blobs" / hashlib.sha256(f"{made.name} {commit}".encode()).hexdigest()
    _link(snapshot / "model.safetensors", write_sparse(weights, made.tensors()), used)
    (repo / "refs" / "main").write_text(commit, encoding="utf-8")
    return snapshot


def add_library(hub_cache: Path) -> None:
    """Fill a cache: four models, an older revision, and a download that was not finished."""
    add(hub_cache, RIVER, commit="5c1f0d7b2a9e4c36b8d1f0a7e2c495d83b6f1a20", used=40 * DAY)
    for made in (RIVER, BROOK, LAKE, ECHO):
        add(hub_cache, made)
    blobs = hub_cache / "models--acme--Brook-1B-Instruct" / "blobs"
    rest = blobs / f"{hashlib.sha256(b'rest').hexdigest()}.incomplete"
    with rest.open("wb") as file:
        file.truncate(310_000_000)
    _age(rest, 3 * DAY)


def add_adapter(folder: Path) -> None:
    """Write an adapter as mlx-lm leaves one."""
    folder.mkdir()
    config = {
        "model": RIVER.name,
        "fine_tune_type": "lora",
        "num_layers": 16,
        "lora_parameters": {"rank": 8, "scale": 20.0, "dropout": 0.0},
        "data": "ada/notes",
        "iters": 600,
        "learning_rate": 1e-5,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    pairs = {"lora_a": (4096, 8), "lora_b": (8, 4096)}
    layers = (f"model.layers.{n}.self_attn.q_proj" for n in range(16, 32))
    tensors = {f"{at}.{name}": ("F32", shape) for at in layers for name, shape in pairs.items()}
    write_sparse(folder / "adapters.safetensors", tensors)
    (folder / "0000500_adapters.safetensors").write_bytes(b"")


def _link(link: Path, blob: Path, used: float) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(blob, link.parent))
    _age(blob, used)


def _age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))
