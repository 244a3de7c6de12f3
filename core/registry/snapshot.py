"""A model folder seen from outside: whether every file that should be there is.

Opens JSON files only, never weights, and imports no arrays: `mlxbun ls` lives on this. The files
are foreign input; whatever they hold, these functions answer and do not raise.
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING

from core.registry.files import printable, read_json
from core.registry.weights import WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

INDEX = "model.safetensors.index.json"
_SHARD = re.compile(r"model-\d{5}-of-(\d{5})\.safetensors")

# What a folder holds instead of a model, by a file that gives it away; the first that fits is told.
_SOMETHING_ELSE = (
    ("model_index.json", "it is a diffusers pipeline, not a language model"),
    ("adapter_config.json", "it is an adapter, not a whole model"),
    ("adapters.safetensors", "it is an adapter, not a whole model"),
)
# Weights of a kind that is not loaded, by how their names end.
_OTHER_WEIGHTS = (
    (".gguf", "its weights are GGUF files; mlxbun loads safetensors"),
    ((".bin", ".pt", ".pth"), "its weights are PyTorch files; mlxbun loads safetensors"),
    (".npz", "its weights are NumPy files; mlxbun loads safetensors"),
    (".onnx", "its weights are ONNX files; mlxbun loads safetensors"),
    (".h5", "its weights are Keras files; mlxbun loads safetensors"),
    (".msgpack", "its weights are Flax files; mlxbun loads safetensors"),
    (".safetensors", f"its weights are not named {WEIGHTS}"),
)


def find_problem(folder: Path) -> str | None:
    """Return why a folder cannot be used as a model, as a clause, or None when it can.

    `config.json` must be readable, and every file of weights that the index or the numbering of
    the shards promises must be there. What is in the weights is not looked at.
    """
    try:
        weight_files(folder)
        if (problem := _trouble(folder, "config.json")) is not None:
            return problem
        if read_json(folder / "config.json") is None:
            return "config.json is not a JSON object"
    except IncompleteError as problem:
        return str(problem)
    except OSError as problem:
        return f"it cannot be read ({problem.strerror})"
    return None


class IncompleteError(Exception):
    """Files of a model are not there; the text is which, as a clause."""


def weight_files(folder: Path) -> list[str]:
    """Return the names of a model's weight files, all of which are there.

    Raises:
        IncompleteError: one is missing, or the folder holds something else than a model.
        OSError: the folder or its index cannot be read.
    """
    names = {path.name for path in folder.iterdir()}
    promised = _indexed_files(folder) if INDEX in names else _numbered_files(names)
    for name in promised:
        if (trouble := _trouble(folder, name)) is not None:
            raise IncompleteError(trouble)
    # mlx-lm loads whatever is called so, promised or not.
    return sorted({*promised, *fnmatch.filter(names, WEIGHTS)})


def _indexed_files(folder: Path) -> list[str]:
    if (trouble := _trouble(folder, INDEX)) is not None:
        raise IncompleteError(trouble)
    mapping = (read_json(folder / INDEX) or {}).get("weight_map")
    values = list(mapping.values()) if isinstance(mapping, dict) else []
    if not values or not all(isinstance(name, str) for name in values):
        raise IncompleteError(f"{INDEX} names no weight files")
    names = sorted(set(values))
    if not all(map(_is_plain, names)):
        raise IncompleteError(f"{INDEX} names no weight files")
    if strange := [name for name in names if not fnmatch.fnmatchcase(name, WEIGHTS)]:
        raise IncompleteError(f"its weights are not named {WEIGHTS}, but {printable(strange[0])}")
    return names


def _numbered_files(names: Collection[str]) -> list[str]:
    found = sorted(fnmatch.filter(names, WEIGHTS))
    if not found:
        raise IncompleteError(_what_else(names))
    if match := _SHARD.fullmatch(found[0]):
        last = int(match[1])
        return [f"model-{number:05}-of-{last:05}.safetensors" for number in range(1, last + 1)]
    return found


def _what_else(names: Collection[str]) -> str:
    """Return what a folder without weights for us is."""
    for name, told in _SOMETHING_ELSE:
        if name in names:
            return told
    for ending, told in _OTHER_WEIGHTS:
        if any(name.lower().endswith(ending) for name in names):
            return told
    if "config.json" not in names:
        return "config.json is missing"
    return "it has no safetensors weights"


def _trouble(folder: Path, name: str) -> str | None:
    path = folder / name
    if path.is_file():
        return None
    name = printable(name)
    if path.exists():
        return f"{name} is no regular file"
    return f"{name} points to a file that is gone" if path.is_symlink() else f"{name} is missing"


def _is_plain(name: str) -> bool:
    return "/" not in name and "\0" not in name
