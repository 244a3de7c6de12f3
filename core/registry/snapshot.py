"""A model folder seen from outside: whether it is whole, and what its config.json says.

Opens JSON files only, never weights, and imports no arrays: `mlxbun ls` lives on this. The files
are foreign input; whatever they hold, these functions answer and do not raise.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

INDEX = "model.safetensors.index.json"
_SHARD = re.compile(r"model-\d{5}-of-(\d{5})\.safetensors")
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """What config.json tells about a model. None: it does not tell."""

    model_type: str | None = None
    """The architecture's name: `llama`."""
    quantization: str | None = None
    """`4-bit (group 32)`, or the type of its numbers: `float16`."""
    context: int | None = None
    """Tokens that the model was made for."""
    vision: bool = False
    """Whether it has a part that sees."""


def find_problem(folder: Path) -> str | None:
    """Return why a folder cannot be used as a model, as a clause, or None when it can.

    `config.json` must be readable, and every file of weights that the index or the numbering of
    the shards promises must be there.
    """
    try:
        if (config := _trouble(folder, "config.json")) is not None:
            return config
        if read_json(folder / "config.json") is None:
            return "config.json is not a JSON object"
        return next(filter(None, (_trouble(folder, name) for name in _weight_files(folder))), None)
    except _NoWeightsError as problem:
        return str(problem)
    except OSError as problem:
        return f"it cannot be read ({problem.strerror})"


def read_card(folder: Path) -> ModelCard:
    """Return what config.json tells; an empty card where it cannot be read."""
    try:
        config = read_json(folder / "config.json") or {}
    except OSError:
        config = {}
    inner = config.get("text_config")
    layers = (config, inner if isinstance(inner, dict) else {})
    contexts = (layer.get(key) for layer in layers for key in _CONTEXT_KEYS)
    model_type = config.get("model_type")
    return ModelCard(
        model_type=model_type if isinstance(model_type, str) else None,
        quantization=_quantization(config),
        context=next((number for number in contexts if type(number) is int), None),
        vision=isinstance(config.get("vision_config"), dict),
    )


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file, or None when there is no object in it.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested beyond all measure
        return None
    return content if isinstance(content, dict) else None


class _NoWeightsError(Exception):
    """The folder has no weights to speak of."""


def _trouble(folder: Path, name: str) -> str | None:
    path = folder / name
    if path.is_file():
        return None
    return f"{name} points to a file that is gone" if path.is_symlink() else f"{name} is missing"


def _weight_files(folder: Path) -> list[str]:
    """Return the names of the weight files that should be there."""
    if (folder / INDEX).is_symlink() or (folder / INDEX).exists():
        return _indexed_files(folder)
    names = sorted(path.name for path in folder.glob("model*.safetensors"))
    if not names:
        raise _NoWeightsError("it has no safetensors weights")
    if match := _SHARD.fullmatch(names[0]):
        last = int(match[1])
        return [f"model-{number:05}-of-{last:05}.safetensors" for number in range(1, last + 1)]
    return names


def _indexed_files(folder: Path) -> list[str]:
    if (trouble := _trouble(folder, INDEX)) is not None:
        raise _NoWeightsError(trouble)
    mapping = (read_json(folder / INDEX) or {}).get("weight_map")
    names = set(mapping.values()) if isinstance(mapping, dict) and mapping else set()
    if not names or not all(isinstance(name, str) and "/" not in name for name in names):
        raise _NoWeightsError(f"{INDEX} names no weight files")
    return sorted(names)


def _quantization(config: Mapping[str, Any]) -> str | None:
    packed = config.get("quantization") or config.get("quantization_config")
    if isinstance(packed, dict):
        bits, group = packed.get("bits"), packed.get("group_size")
        if isinstance(bits, int):
            return f"{bits}-bit (group {group})" if isinstance(group, int) else f"{bits}-bit"
        method = packed.get("quant_method")
        return method if isinstance(method, str) else None
    kind = config.get("torch_dtype") or config.get("dtype")
    return kind if isinstance(kind, str) else None
