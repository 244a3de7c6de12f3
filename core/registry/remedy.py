"""Remedies for model folders that cannot be loaded, found by their files."""

from __future__ import annotations

import json
from fnmatch import filter as matching
from shlex import quote
from typing import TYPE_CHECKING

from core.registry.facts import check_folder, read_facts
from core.registry.files import is_lfs_pointer, printable, read_bytes
from core.registry.support import judge
from core.registry.weights import WEIGHTS

if TYPE_CHECKING:
    from pathlib import Path

_SAFETENSORS = "Download an MLX or safetensors version of the model."
_FOREIGN = (".bin", ".pt", ".pth", ".npz", ".onnx", ".h5", ".msgpack")


def import_hint(file: Path) -> str:
    """Return what to do with a GGUF file that was named as a model."""
    return f"Import it first: `mlxbun import {quote(printable(str(file), 1000))}`."


def remedy(folder: Path) -> str | None:
    """Return what to do about a folder that cannot be loaded; None: nothing particular was found.

    Looks at names and at the first bytes of small files. Does not raise.
    """
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return None
    if pointer := next((file for file in files if is_lfs_pointer(file)), None):
        return (
            f"{printable(pointer.name)} is a Git LFS pointer: run `git lfs pull` in {folder}, or "
            "get the model with `mlxbun download`."
        )
    names = [file.name.lower() for file in files]
    if matching(names, WEIGHTS):
        return None
    if "adapter_config.json" in names or "adapters.safetensors" in names:
        return f"Name its base model, and use this folder with `--adapter {folder}`."
    if ggufs := [file for file in files if file.name.lower().endswith(".gguf")]:
        return import_hint(ggufs[0])
    return _SAFETENSORS if any(name.endswith(_FOREIGN) for name in names) else None


def diagnose(folder: Path) -> tuple[str | None, str | None]:
    """Return why a folder cannot be loaded, as a clause, and what to do; None: not found out.

    For a load that has failed already: reads mlx-lm's sources, which takes part of a second.
    """
    from core.registry.architectures import find_mlx_lm, read_architectures

    if found := remedy(folder):
        return check_folder(folder), found
    if name := broken_json(folder):
        return f"{name} is not valid JSON", "Fix the file, or download the model again."
    verdict = judge(read_facts(folder), read_architectures(find_mlx_lm()))
    if verdict.supported:
        return None, None
    return verdict.reason, "Choose another model: `mlxbun ls` shows which are supported."


def broken_json(folder: Path) -> str | None:
    """Return the name of a JSON file in a folder that is empty or not JSON; None: all are sound.

    The parsers that read them name no file. Does not raise.
    """
    try:
        files = sorted(folder.glob("*.json"))
    except OSError:
        return None
    return next((printable(file.name) for file in files if not _is_json(file)), None)


def _is_json(file: Path) -> bool:
    try:
        json.loads(read_bytes(file).decode())
    except (OSError, ValueError, RecursionError):
        return False
    return True
