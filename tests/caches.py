"""Builds Hugging Face caches for tests, file by file, and weights that are headers alone."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path

_ITEM_BYTES = {"F32": 4, "U32": 4, "I32": 4, "F16": 2, "BF16": 2, "U8": 1, "I8": 1, "F8_E4M3": 1}

# What mlx-lm asks of the configs of some types, and a few more words that configs hold.
WORDS = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 256,
}

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]


def safetensors(tensors: Tensors | None = None, *, padding: int = 0) -> bytes:
    """Return a whole safetensors file of zeros.

    Args:
        tensors: (type, shape) of each tensor by name; None: there are none.
        padding: bytes of one more tensor, to make the file as large as wanted.
    """
    header, size = _header(dict(tensors or {}), padding)
    return header + bytes(size)


def write_sparse(path: Path, tensors: Tensors) -> Path:
    """Write a safetensors file whose data are a hole: any size takes no room on the disk."""
    header, size = _header(dict(tensors), 0)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + size)
    return path


def add_model(
    hub_cache: Path,
    repo_id: str,
    *,
    commit: str | None = None,
    config: bytes = json.dumps({"model_type": "llama", **WORDS}).encode(),
    weights: dict[str, bytes] | None = None,
    ref: str | None = "main",
) -> Path:
    """Add a model repository and return its snapshot; by default with one file of weights.

    Args:
        hub_cache: the cache.
        repo_id: its name.
        commit: its commit; None: made from the name.
        config: what config.json holds.
        weights: all other files by name; None: a file of weights without tensors.
        ref: the ref that is set to the commit; None: none is.
    """
    files = {"config.json": config, **(weights or {"model.safetensors": safetensors()})}
    repo = hub_cache / f"models--{repo_id.replace('/', '--')}"
    commit = commit or hashlib.sha1(repo_id.encode()).hexdigest()
    snapshot = repo / "snapshots" / commit
    for folder in (repo / "blobs", repo / "refs", snapshot):
        folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        blob = repo / "blobs" / hashlib.sha256(data).hexdigest()
        if not blob.exists():
            blob.write_bytes(data)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    if ref is not None:
        place = repo / "refs" / ref
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(commit)
    return snapshot


def _header(tensors: dict[str, tuple[str, tuple[int, ...]]], padding: int) -> tuple[bytes, int]:
    """Return the beginning of a safetensors file and the bytes of its data."""
    if padding:
        tensors["padding"] = ("U8", (padding,))
    described: dict[str, object] = {}
    position = 0
    for name, (kind, shape) in tensors.items():
        end = position + _ITEM_BYTES[kind] * math.prod(shape)
        described[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [position, end]}
        position = end
    content = json.dumps(described).encode()
    return len(content).to_bytes(8, "little") + content, position
