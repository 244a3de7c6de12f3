"""A trained adapter put on a model in memory. Reads mlx-lm's format, and by mlx-lm's own loader.

An engine has one adapter for its whole life, so its prompt cache holds the KV of no other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from core.errors import BadModelFiles, NotFound

WEIGHTS = "adapters.safetensors"
"""The file with an adapter's matrices."""
CONFIG = "adapter_config.json"
"""The file that says on which layers they belong."""


def find_adapter(name: str) -> Path:
    """Return the folder of an adapter.

    Raises:
        NotFound: there is no such folder.
        BadModelFiles: it holds no adapter.
    """
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise NotFound(
            f"There is no adapter folder {name}.", hint="`mlxbun adapters list` shows some."
        )
    for file in (WEIGHTS, CONFIG):
        if not (folder / file).is_file():
            raise BadModelFiles(
                f"{name} is no adapter: it has no {file}.",
                hint="An adapter is a folder as `mlxbun train` or mlx_lm.lora write it.",
            )
    return folder


def mount_adapter(model: Any, folder: Path) -> None:
    """Put an adapter on a model.

    Args:
        model: an mlx-lm model.
        folder: the adapter's.

    Raises:
        BadModelFiles: the adapter's files are broken, or made for another model.
    """
    from mlx_lm.tuner.utils import load_adapters

    try:
        load_adapters(model, str(folder))
    # Foreign code on foreign files: whatever it raises, they cannot be used.
    except Exception as problem:
        reason = " ".join(str(problem).split())[:300]
        raise BadModelFiles(
            f"The adapter in {folder} cannot be put on this model: {reason}",
            hint="Use it with the model it was trained on; `mlxbun adapters inspect` names it.",
        ) from problem
    model.eval()


def base_of(folder: Path) -> str | None:
    """Return the model that an adapter says it was trained on, or None if it does not say."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    base = config.get("model") if isinstance(config, dict) else None
    return base if isinstance(base, str) and base else None
