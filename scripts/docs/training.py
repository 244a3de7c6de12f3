"""Data and adapters that the scenes show: small, and the same every time."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from scripts.docs.library import add_adapter
from tests.caches import write_sparse

_MADE = 1_764_410_400.0  # 2025-11-29 10:00 UTC
_COUNTRIES = {
    "France": "Paris",
    "Italy": "Rome",
    "Japan": "Tokyo",
    "Kenya": "Nairobi",
    "Norway": "Oslo",
    "Peru": "Lima",
}


def add_rows(folder: Path) -> None:
    """Write a data set that teaches a form of answers, with a row that cannot be used."""
    folder.mkdir()
    rows = [
        {"prompt": f"What is the capital of {country}?", "completion": f"Capital: {city}."}
        for country, city in _COUNTRIES.items()
    ]
    lines = [json.dumps(row) for row in (*rows, {"prompt": "What is the capital of Chad?"})]
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def add_kept_adapter(home: Path) -> None:
    """Put an adapter where those that were trained here are kept."""
    kept = home / ".cache" / "mlxbun" / "adapters"
    kept.mkdir(parents=True)
    add_adapter(kept / "notes-lora")
    os.utime(kept / "notes-lora" / "adapters.safetensors", (_MADE, _MADE))


def add_starter_adapter(folder: Path) -> None:
    """Write an adapter for the starter model, whose part is zero."""
    folder.mkdir()
    config = {
        "fine_tune_type": "lora",
        "num_layers": 30,
        "lora_parameters": {"rank": 8, "scale": 20.0, "dropout": 0.0, "keys": ["self_attn.q_proj"]},
    }
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    layers = (f"model.layers.{n}.self_attn.q_proj" for n in range(30))
    write_sparse(
        folder / "adapters.safetensors",
        {
            f"{layer}.{name}": ("F32", (576, 8) if name == "lora_a" else (8, 576))
            for layer in layers
            for name in ("lora_a", "lora_b")
        },
    )


def add_three_bits(starter: Path, folder: Path) -> None:
    """Write the starter model again in three bits, by plain rounding."""
    import mlx.core as mx
    from mlx import nn
    from mlx.utils import tree_flatten
    from mlx_lm.utils import dequantize_model, load_model

    model, config = load_model(starter, lazy=True)
    nn.quantize(dequantize_model(model), group_size=64, bits=3)
    shutil.copytree(starter, folder)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    packed = {"quantization": {"group_size": 64, "bits": 3}}
    told = json.dumps({**config, **packed, "quantization_config": packed["quantization"]})
    (folder / "config.json").write_text(told, encoding="utf-8")
