"""Builds Hugging Face caches for tests, file by file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def add_model(
    hub_cache: Path,
    repo_id: str,
    *,
    commit: str | None = None,
    config: bytes = json.dumps({"model_type": "llama"}).encode(),
    weights: dict[str, bytes] | None = None,
) -> Path:
    """Add a model repository and return its snapshot; by default with one file of weights."""
    files = {"config.json": config, **(weights or {"model.safetensors": b"w"})}
    repo = hub_cache / f"models--{repo_id.replace('/', '--')}"
    commit = commit or hashlib.sha1(repo_id.encode()).hexdigest()
    snapshot = repo / "snapshots" / commit
    for folder in (repo / "blobs", repo / "refs", snapshot):
        folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        blob = repo / "blobs" / hashlib.sha256(data).hexdigest()
        blob.write_bytes(data)
        (snapshot / name).symlink_to(Path("..", "..", "blobs", blob.name))
    (repo / "refs" / "main").write_text(commit)
    return snapshot
